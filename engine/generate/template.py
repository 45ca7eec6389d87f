"""The chat template: what the model is given around the reader's words, and where those words stand in it.

Knows the template's text; does not know token ids. The template is rendered once with stand-ins, to learn its own text, and once for real.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import jinja2

from engine.errors import EngineError, InvalidSetting, NoChatTemplate

_SYSTEM, _USER = "openbook-system-3f9c", "openbook-user-3f9c"  # stand-ins: plain letters that no template alters


@dataclass(frozen=True, slots=True)
class Rendered:
    """Template text with the reader's words in it. Spans are (start, end) in characters.

    user: the question. typed: everything a reader typed (the question and, if given, the system prompt): never control tokens.
    """

    text: str
    user: tuple[int, int]
    typed: tuple[tuple[int, int], ...]


def has_chat_template(tokenizer: Any) -> bool:
    return bool(getattr(tokenizer, "chat_template", None))


def default_system_prompt(tokenizer: Any) -> str:
    """The system prompt that the template puts in by itself; "" if it has none (or no template, or takes no system prompt)."""
    if not has_chat_template(tokenizer):
        return ""
    try:
        before, between, after = _parts_with_system(tokenizer)
    except EngineError:  # no place for a system prompt: then it has none of its own either
        return ""
    return _injected(_template_text(tokenizer, None, _USER), before, between + _USER + after) or ""


def render(tokenizer: Any, text: str, system_prompt: str | None) -> Rendered:
    """`text` inside the chat template, ready for generation. system_prompt as in RunSettings.

    Raises NoChatTemplate, or InvalidSetting if this template takes no system prompt.
    """
    if not has_chat_template(tokenizer):
        raise _no_template(tokenizer)
    if system_prompt:
        before, between, after = _parts_with_system(tokenizer)
        return _fill(tokenizer, _template_text(tokenizer, system_prompt, text), (before, between, after), (system_prompt, text))
    before, after = _split(tokenizer, _template_text(tokenizer, None, _USER), _USER)
    filled = _fill(tokenizer, _template_text(tokenizer, None, text), (before, after), (text,))
    return filled if system_prompt is None else _drop_before(filled, before, _without_system(tokenizer, before, after))


def _without_system(tokenizer: Any, before: str, after: str) -> str:
    """`before` (the template's text ahead of the question) without the system block that the template puts in by itself.

    The block starts with a control token (ChatML: <|im_start|>) and the question's own block starts with the same one.
    """
    if not default_system_prompt(tokenizer):
        return before
    opening, between, _ = _parts_with_system(tokenizer)
    names = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    specials = [name for name in names if name in opening and name in between]
    if not specials:
        return opening + between  # no mark to cut at: the block stays, empty
    first = min(specials, key=opening.find)
    return opening[: opening.find(first)] + between[between.rfind(first) :]


def _drop_before(rendered: Rendered, before: str, shorter: str) -> Rendered:
    start, end = rendered.user
    shift = len(shorter) - len(before)
    user = (start + shift, end + shift)
    return Rendered(shorter + rendered.text[start:], user, (user,))


def _parts_with_system(tokenizer: Any) -> tuple[str, str, str]:
    """The template's own text before the system prompt, between it and the question, and after the question."""
    rendered = _template_text(tokenizer, _SYSTEM, _USER)
    if rendered.count(_SYSTEM) != 1:
        raise _no_system_prompt()
    before, rest = _split(tokenizer, rendered, _SYSTEM)
    return before, *_split(tokenizer, rest, _USER)


def _injected(rendered: str, before: str, rest: str) -> str | None:
    fits = rendered.startswith(before) and rendered.endswith(rest) and len(rendered) >= len(before) + len(rest)
    return rendered[len(before) : len(rendered) - len(rest)] if fits else None


def _split(tokenizer: Any, rendered: str, mark: str) -> tuple[str, str]:
    if rendered.count(mark) != 1:
        raise _no_template(tokenizer)  # no place for the question, or several
    before, _, after = rendered.partition(mark)
    return before, after


def _fill(tokenizer: Any, rendered: str, fixed: tuple[str, ...], words: tuple[str, ...]) -> Rendered:
    """Finds the reader's words in the rendered text. Templates may strip them at both ends (Gemma's does), no more."""
    for choice in itertools.product(*[dict.fromkeys((word, word.strip())) for word in words]):
        spans: list[tuple[int, int]] = []
        text = fixed[0]
        for word, following in zip(choice, fixed[1:], strict=True):
            spans.append((len(text), len(text) + len(word)))
            text += word + following
        if text == rendered:
            return Rendered(text, spans[-1], tuple(spans))
    raise _no_template(tokenizer)  # it alters the question: nobody could say which tokens are the reader's


def _template_text(tokenizer: Any, system_prompt: str | None, text: str) -> str:
    messages = [{"role": "user", "content": text}]
    if system_prompt is not None:
        messages.insert(0, {"role": "system", "content": system_prompt})
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except jinja2.TemplateError as error:  # a template's own raise_exception, or one that cannot be read
        if system_prompt is not None:
            raise _no_system_prompt() from error
        raise _no_template(tokenizer) from error


def _no_template(tokenizer: Any) -> NoChatTemplate:
    return NoChatTemplate(model=str(getattr(tokenizer, "name_or_path", "")))


def _no_system_prompt() -> InvalidSetting:
    return InvalidSetting(field="system_prompt", value="text", allowed="null")
