import pytest

from aevlp.cli.arguments import configured
from aevlp.cli.reproduce import read_request
from aevlp.config.sweep import trials_of
from aevlp.core.errors import UserError
from aevlp.experiments.compare import _command
from aevlp.experiments.reproduce.plan import PlannedRow, differences, plan, trainings_of
from aevlp.experiments.reproduce.targets import ReproduceRequest
from aevlp.training.run_folder import RunFolder


def asked(*words: str) -> ReproduceRequest:
    return read_request([*words, "--out", "tables"])


def rows(*words: str) -> list[PlannedRow]:
    return plan(asked(*words))


def labels(*words: str) -> list[str]:
    return [each.training.label for each in rows(*words) if each.training is not None]


VOC = ("--recipe", "voc", "--data", "voc")


def test_the_main_table_trains_the_methods_of_the_paper_and_asks_the_teacher_alone():
    methods = "full an role em em-apl boostlu+ll-r smile mime gr vlpl aevlp zero-shot zero-shot-views"
    assert " ".join(labels("table1", *VOC)) == methods


def test_tables_share_the_trainings_that_they_have_in_common():
    """The whole method has its plain name wherever it stands, whatever the recipe's grid and share are."""
    assert " ".join(labels("table2", *VOC)) == "bce+random gpr+random vlpl gpr+vlpl ll-ct gpr+ll-ct bce+damp aevlp"
    assert labels("table5", *VOC) == [f"aevlp-damp.grid={grid}" if grid != 4 else "aevlp" for grid in (2, 3, 4, 5, 6)]
    assert labels("table5", "--recipe", "cub", "--data", "cub")[2:4] == ["aevlp-damp.grid=4", "aevlp"]
    shares = labels("fig3", "--recipe", "coco", "--data", "coco")
    assert shares[3] == "aevlp"
    assert shares[::6] == ["aevlp-damp.negative_fraction=0", "aevlp-damp.negative_fraction=0.6"]
    assert labels("table4", *VOC)[-2:] == ["aevlp-damp.negative_fraction=0", "aevlp"]
    assert labels("fig2", *VOC) == ["an", "gr", "aevlp"]
    assert labels("table3", *VOC) == ["aevlp"]


@pytest.mark.parametrize("recipe", ["voc", "cub"])
def test_each_row_of_the_ablation_switches_off_what_the_paper_says(recipe):
    trials = trials_of(recipe, trainings_of(rows("table4", "--recipe", recipe, "--data", "x")), 1)
    assert len(trials) == 7
    whole = trials[-1].config
    found = []
    for trial in trials:
        damp, loss = trial.config.source, trial.config.loss
        found.append(
            (
                damp.noise,  # type: ignore[attr-defined]
                damp.augment,  # type: ignore[attr-defined]
                damp.overlap,  # type: ignore[attr-defined]
                (loss.lambda1, loss.lambda2) != (0.7, 0.7),  # type: ignore[attr-defined]
                loss.eta,  # type: ignore[attr-defined]
                damp.negative_fraction,  # type: ignore[attr-defined]
            )
        )
        assert trial.config.train == whole.train
    eta = {"voc": 0.05, "cub": 0.01}[recipe]
    assert found == [
        (False, True, 0, False, 0, 0),
        (True, True, 0, False, 0, 0),
        (True, False, 0.2, False, 0, 0),
        (True, True, 0.2, False, 0, 0),
        (True, True, 0.2, True, 0, 0),
        (True, True, 0.2, True, eta, 0),
        (True, True, 0.2, True, eta, 0.2),
    ]


def test_backbones_of_the_paper_and_of_the_demo():
    found = rows("table6", *VOC)
    assert [each.row.name for each in found] == ["ResNet-50", "ConvNeXt-L-1K", "ConvNeXt-L-22K", "ViT-L/14"]
    trials = trials_of("voc", trainings_of(found), 1)
    assert [trial.config.model.image_size for trial in trials] == [448, 448, 448, 336]
    assert trials[0].label == "aevlp"
    assert [trial.config.model.backbone for trial in trials_of("demo", trainings_of(rows("table6")), 1)] == ["demo", "demo-clip"]
    chosen = rows("table6", *VOC, "--backbone", "a/b,openai/clip-vit-large-patch14-336", "--model.image_size", "224")
    assert [each.row.name for each in chosen] == ["a/b", "ViT-L/14"]
    assert {trial.config.model.image_size for trial in trials_of("voc", trainings_of(chosen), 1)} == {224}


def test_what_is_said_holds_for_the_rows_that_have_it():
    trials = {
        t.method: t.config for t in trials_of("voc", trainings_of(rows("table1", *VOC, "--damp.top_k", "9", "--epochs", "3")), 1)
    }
    assert trials["aevlp"].source.top_k == 9  # type: ignore[attr-defined]
    assert {config.train.epochs for config in trials.values()} == {3}
    assert {config.data.observe for config in trials.values()} == {"single"}
    assert not any(config.run.report for config in trials.values())


def test_what_differs_from_the_recipe_is_told():
    assert differences(rows("table1", *VOC)) == []
    assert differences(rows("table4", *VOC)) == []
    found = differences(
        rows("table1", *VOC, "--teacher", "own:teacher", "--epochs", "3", "--device", "cpu", "--observe", "given")
    )
    assert found == [
        "`data.observe` is given; in the recipe single",
        "`train.epochs` is 3; in the recipe 8",
        "`teacher.name` is own:teacher; in the recipe openai/clip-vit-base-patch16",
    ]
    quick = differences(rows("table1", "--quick"))
    assert "`train.epochs` is 2; in the recipe 6" in quick
    assert "`damp.draws` is 1; in the recipe 2" in quick
    published = differences(rows("table1", *VOC, "--protocol", "published", "--epochs", "10"))
    assert "`train.epochs` is 10; in the recipe 8" in published


def test_a_method_that_linear_mode_cannot_train_is_left_out_with_its_reason():
    found = rows("table1", *VOC, "--train.mode", "linear")
    skipped = [each for each in found if each.training is None]
    assert [(each.row.name, each.skipped) for each in skipped] == [
        ("boostlu+ll-r", "not in the mode linear: its head sees a map of features")
    ]
    assert "`train.mode` is linear; in the recipe full" in differences(found)
    assert "`train.head_learning_rate` is 0.001; in the recipe 0.0001" in differences(found)


def test_a_job_trains_what_is_planned(tmp_path):
    """What a process of its own is told leads to the same configuration."""
    request = asked("table4", "--quick", "--loss.q3", "0.8")
    trials = trials_of(request.recipe, trainings_of(plan(request)), 2)
    for trial in (trials[0], trials[-1]):
        words = _command(trial, tmp_path, RunFolder(tmp_path / "run"))

        def add(parser):
            parser.add_argument("data")
            parser.add_argument("--out")

        assert configured("train", "", words[words.index("train") + 1 :], add)[1] == trial.config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table1", *VOC, "--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["table1", *VOC, "--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["table1", *VOC, "--seed", "1"], "--seed 1: reproduce trains with seeds 0, 1, ...; say how many with --seeds N"),
        (["table5", *VOC, "--damp.grid", "3"], "--damp.grid is what the rows of table5 differ in; leave it out"),
        (["table4", *VOC, "--loss.eta", "0"], "--loss.eta is what the rows of table4 differ in; leave it out"),
        (["table6", *VOC, "--features", "a.npz"], "--features is what the rows of table6 differ in; leave it out"),
        (["table5", *VOC, "--ll-ct.delta", "1"], "--ll-ct.delta is not an option of what table5 trains: aevlp"),
        (["table1", *VOC, "--method", "an"], "--method: table1 has methods of its own: full, an, role"),
        (["table1", *VOC, "--damp.top", "1"], "unknown option --damp.top (did you mean '--damp.top_k'?)"),
        (["table1", "--recipe", "voc"], "--recipe voc needs --data DATA: the image set (demo: the embedded world)"),
        (["table1", "--recipe", "vov"], "--recipe vov: no such recipe or file (did you mean 'voc'?)"),
        (["tabel1"], "reproduce tabel1: no such table or figure (did you mean 'table1'?); there are table1, table2"),
        (["table1", *VOC, "--damp.grid", "0"], "--damp.grid must be from 1 to 64, not 0"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(words, message):
    with pytest.raises(UserError) as error:
        rows(*words)
    assert str(error.value).startswith(message)


def test_the_demo_is_what_is_meant_where_nothing_is_said():
    for words in (["table1"], ["table1", "--data", "demo"], ["table1", "--recipe", "demo"]):
        request = asked(*words)
        assert (request.data, request.recipe, request.options["store"]) == (None, "demo", "tables/views")
    own = asked("table1", "--data", "photos")
    assert (str(own.data), own.recipe, "store" in own.options) == ("photos", "default", False)
    with pytest.raises(UserError, match="say what first: table1, table2"):
        read_request([])
