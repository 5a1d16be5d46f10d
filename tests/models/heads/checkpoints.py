"""Random networks of several families, small enough for tests, as checkpoint folders."""

import json

import torch

IMAGE_SIZE = 32
WIDTH = 24  # of the last features, whose map has 4 x 4 positions


def tiny(kind):
    """A random network; some have parts that have no say in the logits."""
    import transformers

    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"image_size": IMAGE_SIZE, "patch_size": 8}
    stages = {"hidden_sizes": [8, WIDTH], "depths": [1, 1]}
    torch.manual_seed(0)
    match kind:
        case "clip":
            return transformers.CLIPForImageClassification(transformers.CLIPConfig(vision_config=sizes, num_labels=3))
        case "siglip":
            return transformers.SiglipForImageClassification(transformers.SiglipConfig(vision_config=sizes, num_labels=3))
        case "dinov2":
            return transformers.Dinov2ForImageClassification(transformers.Dinov2Config(**sizes, mlp_ratio=2, num_labels=3))
        case "vit":
            return transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, num_labels=3))
        case "resnet":
            config = transformers.ResNetConfig(**stages, embedding_size=8, layer_type="basic", num_labels=3)
            return transformers.ResNetForImageClassification(config)
        case "convnext":
            config = transformers.ConvNextConfig(**stages, num_stages=2, patch_size=4, num_labels=3)
            return transformers.ConvNextForImageClassification(config)
    raise ValueError(kind)


def write_checkpoint(folder, model):
    model.save_pretrained(folder)
    settings = {"size": {"height": IMAGE_SIZE, "width": IMAGE_SIZE}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder
