"""The frozen vision-language encoder: texts -> embeddings, views -> embeddings."""

import importlib
import inspect
import logging
import re
import string
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

import torch
import transformers
from tokenizers import Regex, normalizers
from torch import Tensor, nn
from torch.ao import quantization

from aevlp.core.errors import UserError, first_few, one_line
from aevlp.models.image_settings import are_three_numbers, are_three_positive_numbers, image_settings
from aevlp.models.pretrained import DEMO_CLIP, Checkpoint, local_checkpoint, quiet_loading
from aevlp.models.safe_loading import SETTINGS, WEIGHT_SETTINGS, require_finite, unfit_tensors, why_not_loaded

TEXTS_AT_ONCE = 256

log = logging.getLogger("aevlp")


class Teacher(Protocol):
    """The interface of a teacher; its embeddings are not normalised.

    A teacher with an attribute `is_thread_safe` that is true is called from several threads at once, which is faster on a CPU.
    """

    @property
    def image_size(self) -> int:
        """Side S of the square images it takes."""

    @property
    def mean(self) -> tuple[float, float, float]:
        """Mean of the channels, subtracted from values in [0, 1]."""

    @property
    def std(self) -> tuple[float, float, float]:
        """Standard deviation of the channels, by which they are then divided."""

    @property
    def fingerprint(self) -> str:
        """Identifies the weights: teachers with the same fingerprint return the same embeddings."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return embeddings [N, K] of normalised images, float [N, 3, S, S]."""

    def encode_texts(self, texts: list[str]) -> Tensor:
        """Return embeddings [C, K] of C texts."""


def load_teacher(name: str, device: torch.device, precision: str = "fp32") -> Teacher:
    """Return the teacher of `--teacher NAME`, on `device`.

    `name` is a folder with a transformers checkpoint, a name on the hub, "demo", or `package.module:factory`: a function without
    arguments that returns a `Teacher`. With `precision` int8 the linear layers of its image encoder have 8 bits.
    """
    if is_plugin(name):
        if precision == "int8":
            raise UserError(f"--teacher.precision int8: not for a teacher of your own ({name}); use auto")
        return _plugin(name, device)
    return ClipTeacher(local_checkpoint(name, role="teacher"), device, in_int8=precision == "int8")


def is_plugin(name: str) -> bool:
    """Return whether a teacher's name is that of a user's factory, `package.module:factory`."""
    return bool(re.fullmatch(r"[\w.]+:[\w.]+", name)) and not Path(name).exists()


class ClipTeacher:
    """A transformers checkpoint whose image and text encoders share an embedding space: CLIP, SigLIP, SigLIP2, ..."""

    is_thread_safe = True

    def __init__(self, checkpoint: Checkpoint, device: torch.device, *, in_int8: bool = False) -> None:
        settings = image_settings(checkpoint.folder)
        self.image_size, self.mean, self.std = settings.size, settings.mean, settings.std
        self.fingerprint = checkpoint.fingerprint
        self._folder, self._device = checkpoint.folder, device
        model, self._tokenizer = _load(checkpoint.folder)
        self._model = model.eval().requires_grad_(False).to(device)
        if in_int8:
            _quantize_images(self._model)
        config = self._model.config
        self._is_siglip = config.model_type.startswith("siglip")
        self._patch = config.vision_config.patch_size if config.model_type == "siglip2" else None
        positions = getattr(getattr(config, "text_config", None), "max_position_embeddings", None)
        self.max_tokens: int = min(self._tokenizer.model_max_length, positions or 10**9)
        """Most tokens of a text; the rest is cut off."""
        self._check_image_size()

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return embeddings of normalised images [N, 3, S, S]: float32 [N, K] on the teacher's device."""
        with torch.inference_mode():
            inputs = {"pixel_values": pixels.to(self._device)}
            if self._patch:
                inputs = _patches(inputs["pixel_values"], self._patch)
            embeddings = _embeddings(self._model.get_image_features(**inputs))
        return embeddings.clone()  # a tensor made in inference mode allows neither autograd nor in-place changes

    def encode_texts(self, texts: list[str]) -> Tensor:
        """Return embeddings, float32 [C, K] on the teacher's device; refuse a tokenizer that confuses the texts."""
        self.check_tokens(texts)
        with torch.inference_mode():
            chunks = [texts[start : start + TEXTS_AT_ONCE] for start in range(0, len(texts), TEXTS_AT_ONCE)]
            parts = [_embeddings(self._model.get_text_features(**self._tokens(chunk))) for chunk in chunks]
        return torch.cat(parts)

    def check_tokens(self, texts: Iterable[str]) -> None:
        """Refuse texts that the tokenizer does not know or maps to the same ids: its files are then likely missing.

        Some tokenizers load without their files, with hardly any vocabulary, and every class then looks alike.
        """
        texts = list(dict.fromkeys(texts))
        cased = [self._cased(text) for text in texts]
        tokens = self._tokenizer(cased, truncation=True, max_length=self.max_tokens)["input_ids"]
        special = set(self._tokenizer.all_special_ids)
        seen: dict[tuple[int, ...], str] = {}
        where = f"the tokenizer in {self._folder}"
        likely = "its files (tokenizer.json, or vocab.json with merges.txt) are likely missing or not the model's"
        if self._folder == DEMO_CLIP:
            self._refuse_unknown_words(texts, tokens)
        for text, ids in zip(texts, tokens, strict=True):
            if text.strip() and special.issuperset(ids):
                raise UserError(f"{where} has no tokens for {text!r}: {likely}")
            twin = seen.setdefault(tuple(ids), text)
            if _letters(twin) != _letters(text):
                if len(ids) >= self.max_tokens:
                    likely = f"they differ only after the {self.max_tokens} tokens that the model reads"
                raise UserError(f"{where} gives the same ids to {twin!r} and {text!r}: {likely}")
            if twin != text:
                log.warning("the teacher reads %r and %r as the same text", twin, text)

    def _refuse_unknown_words(self, texts: list[str], tokens: list[list[int]]) -> None:
        """Refuse texts with a word that the demo's tokenizer does not know; a template's own words may be unknown to it."""
        counts = [ids.count(self._tokenizer.unk_token_id) for ids in tokens]
        are_distinct = len(set(map(tuple, tokens))) == len(set(map(_letters, texts)))
        usual = min(counts, default=0) if are_distinct else 0
        if unknown := [text for text, count in zip(texts, counts, strict=True) if count > usual]:
            raise UserError(
                "--teacher demo: knows only the words of the demo's drawings (car, cat, clock, umbrella and the like), and not "
                f"{first_few(map(repr, unknown))}; it is not for photos: name a CLIP-like model, by its hub name or folder"
            )

    def _tokens(self, texts: list[str]) -> dict[str, Tensor]:
        """Return the inputs of the text encoder, padded as in its training."""
        texts = [self._cased(text) for text in texts]
        padding = "max_length" if self._is_siglip else True
        side = {"padding_side": "right"} if self._is_siglip else {}
        tokens = self._tokenizer(texts, padding=padding, truncation=True, max_length=self.max_tokens, return_tensors="pt", **side)
        accepted = set(inspect.signature(self._model.get_text_features).parameters)
        if self._is_siglip:  # trained without a mask: its padding is part of the text
            accepted = {"input_ids"}
        return {key: value.to(self._device) for key, value in tokens.items() if key in accepted}

    def _cased(self, text: str) -> str:
        return text.lower() if self._is_siglip else text  # SigLIP2 was trained on lower case; not every tokenizer converts it

    def _check_image_size(self) -> None:
        trained = getattr(getattr(self._model.config, "vision_config", None), "image_size", self.image_size)
        if trained == self.image_size:
            return
        try:  # convolutional encoders take any size, most others do not
            self.encode_images(torch.zeros(1, 3, self.image_size, self.image_size))
        except (ValueError, RuntimeError) as error:
            raise UserError(
                f"{self._folder}: the preprocessor asks for images of {self.image_size} pixels, the model for {trained}"
            ) from error


def _load(folder: Path) -> tuple[Any, Any]:
    """Return the model, in float32, and its tokenizer, from the files in `folder` alone and without running their code."""
    with quiet_loading():
        try:
            config = transformers.AutoConfig.from_pretrained(folder, **SETTINGS)
            kind = transformers.MODEL_MAPPING.get(type(config), None)
            if not (hasattr(kind, "get_image_features") and hasattr(kind, "get_text_features")):
                raise UserError(f"{folder}: a {config.model_type} model does not embed both images and texts")
            model, report = transformers.AutoModel.from_pretrained(folder, config=config, **WEIGHT_SETTINGS)
            try:
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, config=config, **SETTINGS)
            except ImportError:
                if config.model_type != "siglip" or not (folder / "tokenizer.json").is_file():
                    raise
                tokenizer = _siglip_tokenizer(folder)
            tokenizer(["a photo"], padding=True)  # a vocabulary that does not fit, or lacks a token, raises on first use only
        except (KeyboardInterrupt, SystemExit, UserError):
            raise
        except BaseException as error:  # broken files raise nearly anything, also panics: the debug log has the traceback
            log.debug("loading %s failed", folder, exc_info=True)
            raise UserError(f"{folder} cannot be loaded as a teacher ({why_not_loaded(error)})") from error
    # transformers would initialise missing tensors at random and only warn. The logit scale and bias are not used.
    if unfit := [name for name in unfit_tensors(report) if not name.startswith("logit_")]:
        raise UserError(f"{folder}: {len(unfit)} of the model's tensors are missing or superfluous in its file, e.g. {unfit[0]}")
    require_finite(model, str(folder))
    return model, tokenizer


def _siglip_tokenizer(folder: Path) -> Any:
    """Return SigLIP's tokenizer from its tokenizer.json; the class that its checkpoints name needs sentencepiece."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder, **SETTINGS)
    # That class removes punctuation itself, before the steps of the file.
    punctuation, spaces = Regex(f"[{re.escape(string.punctuation)}]"), Regex(r"\s+")
    steps = [normalizers.Replace(punctuation, ""), normalizers.Replace(spaces, " "), normalizers.Strip()]
    if tokenizer.backend_tokenizer.normalizer is not None:
        steps.append(tokenizer.backend_tokenizer.normalizer)
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer


def _quantize_images(model: nn.Module) -> None:
    """Quantise the linear layers of the image encoder to 8 bits, in place; activations are quantised on the fly."""
    layers = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear) and not name.startswith("text")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the function will move to another package
        quantize: Callable[..., nn.Module] = quantization.quantize_dynamic
        quantize(model, dict.fromkeys(layers, quantization.default_dynamic_qconfig), inplace=True)


def _embeddings(output: Any) -> Tensor:
    """Return the features, which transformers 5 wraps in an output object, in float32."""
    return cast(Tensor, output if isinstance(output, Tensor) else output.pooler_output).float()


def _patches(pixels: Tensor, patch: int) -> dict[str, Tensor]:
    """Return the inputs of SigLIP2 of free aspect ratio: the square's patches row by row, flattened with channels last."""
    images, side = len(pixels), pixels.shape[-1] // patch
    grid = pixels.reshape(images, 3, side, patch, side, patch).permute(0, 2, 4, 3, 5, 1)
    return {
        "pixel_values": grid.reshape(images, side * side, -1),
        "pixel_attention_mask": torch.ones(images, side * side, dtype=torch.int64, device=pixels.device),
        "spatial_shapes": torch.full((images, 2), side, device=pixels.device),
    }


def _letters(text: str) -> str:
    """Return the text as a tokenizer reads it that ignores case, spaces and punctuation."""
    return "".join(character for character in text.casefold() if character.isalnum())


def _plugin(name: str, device: torch.device) -> Teacher:
    """Return the teacher that the factory `package.module:factory` makes, on `device`; refuse what is no teacher."""
    module_name, _, factory_name = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # a module in the current folder is found as with `python -m`
    try:
        factory: Any = importlib.import_module(module_name)
        for part in factory_name.split("."):
            factory = getattr(factory, part)
        with quiet_loading():
            teacher = factory()
        if callable(getattr(teacher, "to", None)):
            moved = teacher.to(device)
            teacher = teacher if moved is None else moved
    except Exception as error:  # the user's code: the debug log has the traceback
        log.debug("--teacher %s failed", name, exc_info=True)
        raise UserError(f"--teacher {name}: it could not be made ({one_line(error)})") from error
    if missing := [member for member in _KINDS if not hasattr(teacher, member)]:
        raise UserError(f"--teacher {name}: the {type(teacher).__name__} it returns has no {', '.join(missing)}")
    for member, (is_right, kind) in _KINDS.items():
        if not is_right(value := getattr(teacher, member)):
            raise UserError(f"--teacher {name}: {member} must be {kind}, not {value!r:.60}")
    if isinstance(teacher, nn.Module):
        teacher.eval().requires_grad_(False)
    return cast(Teacher, teacher)


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "encode_images": (callable, "a function"),
    "encode_texts": (callable, "a function"),
    "image_size": (lambda value: isinstance(value, int) and value is not True and value > 0, "a positive int"),
    "mean": (are_three_numbers, "three numbers"),
    "std": (are_three_positive_numbers, "three positive numbers"),
    "fingerprint": (lambda value: isinstance(value, str) and value != "", "a text that names the weights"),
}
