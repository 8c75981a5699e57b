# SPDX-License-Identifier: Apache-2.0
"""Makes the small random models of tests/data/models that come from transformers, with their logits, a greedy
continuation, their loss and its gradients. Needs torch, transformers and numpy.
Usage: make_family_models.py OUT_FOLDER [NAME...]"""
import json
import pathlib
import sys

import torch
import transformers

CONTINUED = 16  # tokens
CLEAR = 1e-3  # the margin by which each token of the continuation must lead, so that rounding changes none


def randomize(model):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0, 0.15)
            if name.endswith("norm.weight"):
                weight.add_(1)


def greedy(model, ids):
    """The tokens, and the smallest margin of one over the second best."""
    made, margin = [], float("inf")
    for _ in range(CONTINUED):
        best = model(torch.tensor([ids + made])).logits[0, -1].topk(2)
        made.append(best.indices[0].item())
        margin = min(margin, (best.values[0] - best.values[1]).item())
    return made, margin


def gradients(model, ids):
    """The loss of the next tokens of both rows, and for each parameter the norm of its gradient and the first four
    elements; in double."""
    model = model.double()
    logits = model(ids).logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
    loss.backward()
    return loss.item(), {name: [float(f"{x:.7g}") for x in (p.grad.norm().item(), *p.grad.flatten()[:4].tolist())]
                         for name, p in model.named_parameters()}


def make(folder, config, model_class, dtype=torch.float32, seed=7):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    randomize(model)
    ids = torch.randint(1, config.vocab_size, (2, 20))
    model.to(dtype).save_pretrained(folder)
    # The logits are those of the stored weights, computed in fp32. Widening this model would not do: its table of
    # rotations is rounded.
    model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(ids).logits.double()
        continuation, margin = greedy(model, ids[0].tolist())
    if margin < CLEAR:
        raise SystemExit(f"{folder.name}: a token leads by {margin:g} alone; take another seed")
    loss, slopes = gradients(model, ids)
    last = logits[:, -1]
    expected = {
        "transformers": transformers.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "ids": ids.tolist(),
        "argmax": logits.argmax(-1).tolist(),
        "logsumexp_last": [round(x, 5) for x in last.logsumexp(-1).tolist()],
        "logits_last8": [[round(x, 5) for x in row[:8].tolist()] for row in last],
        "greedy_from_first_row": continuation,
        "loss": round(loss, 7),
        "gradients": slopes,
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def mistral(folder):
    config = transformers.MistralConfig(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                        max_position_embeddings=256, sliding_window=6)
    make(folder, config, transformers.MistralForCausalLM)


def qwen2(folder):
    config = transformers.Qwen2Config(vocab_size=160, hidden_size=64, intermediate_size=172, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                                      rope_theta=1e6, tie_word_embeddings=False)
    make(folder, config, transformers.Qwen2ForCausalLM)


def qwen2_window(folder):
    """The upper two of three layers have a window."""
    config = transformers.Qwen2Config(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                                      use_sliding_window=True, sliding_window=6, max_window_layers=1,
                                      tie_word_embeddings=True)
    make(folder, config, transformers.Qwen2ForCausalLM)


def qwen3(folder):
    config = transformers.Qwen3Config(vocab_size=192, hidden_size=64, intermediate_size=172, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2, head_dim=24,
                                      max_position_embeddings=256, rope_theta=1e6, tie_word_embeddings=True)
    make(folder, config, transformers.Qwen3ForCausalLM, torch.bfloat16)


def gemma3_cap(folder):
    """A soft cap of the logits, small enough that it bends them."""
    config = transformers.Gemma3TextConfig(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
                                           num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                           max_position_embeddings=256, sliding_window=6, query_pre_attn_scalar=8,
                                           layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                           final_logit_softcapping=3.0)
    make(folder, config, transformers.Gemma3ForCausalLM, seed=12)


MODELS = {"gemma3_cap_fp32": gemma3_cap, "mistral_fp32": mistral, "qwen2_fp32": qwen2, "qwen2_window_fp32": qwen2_window,
          "qwen3_bf16": qwen3}


def main():
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or MODELS:
        MODELS[name](out / name)


main()
