"""Small tokenizers built as those of known families are: what differs is where spaces, bytes and BOS go.

Nothing here knows the right answers; tests do. The plain byte-level one is in tests.fakes.
"""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.fakes import make_tokenizer

GEMMA_CHAT = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{% set first = messages[0]['content'] + '\n\n' %}{% set loop_messages = messages[1:] %}"
    "{% else %}{% set first = '' %}{% set loop_messages = messages %}{% endif %}{% for message in loop_messages %}"
    "{{ '<start_of_turn>' + message['role'] + '\n' + (first if loop.first else '') + (message['content'] | trim) + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)


def make_gemma_like() -> PreTrainedTokenizerFast:
    """BPE over characters with byte fallback, ▁ for a space, a BOS put in by the tokenizer, newlines as added tokens: Gemma's build."""
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    pieces = [*names, "\n\n", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz\n你好", "▁▁", "th", "▁th"]
    merges = [("▁", "▁"), ("t", "h"), ("▁", "th")]
    bpe = models.BPE({piece: id for id, piece in enumerate(pieces)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    backend = Tokenizer(bpe)
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.post_processor = processors.TemplateProcessing("<bos> $A", "<bos> $A <bos> $B", [("<bos>", 2)])
    backend.add_special_tokens(names)
    backend.add_tokens(["\n\n"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    )
    tokenizer.chat_template = GEMMA_CHAT
    return tokenizer


def make_llama2_like() -> PreTrainedTokenizerFast:
    """Byte fallback with a space put ahead of the text by the normalizer: Llama 2's build."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz"]
    backend = Tokenizer(
        models.BPE({piece: id for id, piece in enumerate(pieces)}, [], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    backend.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def make_gpt2_like() -> PreTrainedTokenizerFast:
    """As make_tokenizer, with GPT-2's post-processor, which trims spaces from the offsets."""
    tokenizer = make_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer
