"""Reports: the page of a run (`run_page`), the page of a sweep (`sweep_page`) and the model card (`model_card`).

When a training ends, `collect` gathers the `evidence` that its page shows beside the metrics. A page is made from files alone.
"""
