#!/usr/bin/env python3
"""Generates text through the shared library with nothing but ctypes: no build step, no packages.

    python3 generate.py model.gguf "Once upon a time"

The structures below mirror rocmforge.h; LD_LIBRARY_PATH or ROCMFORGE_LIBRARY says where the library
is when it is not installed where the system looks.
"""
import ctypes as c
import os
import sys


class Text(c.Structure):
    _fields_ = [("text", c.c_char * 500)]


class EngineOpts(c.Structure):
    _fields_ = [("model_path", c.c_char_p), ("backend", c.c_char_p), ("kv_type", c.c_char_p),
                ("n_threads", c.c_int), ("n_ctx", c.c_uint32), ("max_seqs", c.c_uint32),
                ("batch_tokens", c.c_uint32), ("n_kv_blocks", c.c_uint32),
                ("vocab_only", c.c_bool), ("keep_activations", c.c_bool),
                ("device", c.c_uint32), ("swap_bytes", c.c_uint64), ("speculate", c.c_char_p),
                ("draft_model_path", c.c_char_p), ("draft_max", c.c_uint32),
                ("draft_min", c.c_uint32), ("itl_target_ms", c.c_uint32),
                ("measure_only", c.c_bool), ("devices", c.c_char_p), ("gpu_layers", c.c_uint32),
                ("fast_floats", c.c_bool), ("spare_percent", c.c_uint32),
                ("huge_pages", c.c_bool)]


class Sampling(c.Structure):
    _fields_ = [("temperature", c.c_float), ("top_k", c.c_int32), ("top_p", c.c_float),
                ("min_p", c.c_float), ("typical_p", c.c_float), ("top_n_sigma", c.c_float),
                ("xtc_probability", c.c_float), ("xtc_threshold", c.c_float),
                ("repeat_penalty", c.c_float), ("presence_penalty", c.c_float),
                ("frequency_penalty", c.c_float), ("penalty_last_n", c.c_int32),
                ("dry_multiplier", c.c_float), ("dry_base", c.c_float),
                ("dry_allowed_length", c.c_int32), ("dry_last_n", c.c_int32),
                ("mirostat", c.c_bool), ("mirostat_tau", c.c_float), ("mirostat_eta", c.c_float),
                ("seed", c.c_uint64), ("logit_bias", c.c_void_p), ("n_logit_bias", c.c_size_t)]


class Event(c.Structure):  # the leading fields; the library makes events, so the rest may be left out
    _fields_ = [("request", c.c_uint64), ("finish", c.c_int), ("token", c.c_int32),
                ("text", c.POINTER(c.c_char)), ("text_len", c.c_size_t)]


OnEvent = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Event))


class RequestOpts(c.Structure):
    _fields_ = [("tokens", c.POINTER(c.c_int32)), ("n_tokens", c.c_size_t), ("sampling", Sampling),
                ("max_tokens", c.c_int32), ("min_tokens", c.c_int32),
                ("stop", c.c_void_p), ("n_stop", c.c_size_t), ("n_logprobs", c.c_int32),
                ("ignore_eos", c.c_bool), ("with_special", c.c_bool),
                ("grammar", c.c_void_p), ("timeout_ms", c.c_uint32), ("flow", c.c_uint64),
                ("weight", c.c_uint32), ("priority", c.c_int32),
                ("on_event", OnEvent), ("user", c.c_void_p),
                ("prefix_salt", c.c_uint64), ("no_speculation", c.c_bool)]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: generate.py MODEL.gguf PROMPT")
    rf = c.CDLL(os.environ.get("ROCMFORGE_LIBRARY", "librocmforge.so.0"))
    rf.rf_sampling_default.restype = Sampling
    why, engine = Text(), c.c_void_p()

    def check(status):
        if status:
            sys.exit(why.text.decode())

    check(rf.rf_engine_open(c.byref(engine), c.byref(EngineOpts(sys.argv[1].encode())),
                            c.byref(why)))
    prompt = sys.argv[2].encode()
    tokens, n = (c.c_int32 * (len(prompt) + 8))(), c.c_size_t()
    check(rf.rf_engine_tokenize(engine, prompt, c.c_size_t(len(prompt)), c.c_bool(True),
                                c.c_bool(False), tokens, c.c_size_t(len(tokens)), c.byref(n),
                                c.byref(why)))
    finish = []

    @OnEvent
    def on_event(_, event):
        e = event.contents
        sys.stdout.buffer.write(e.text[:e.text_len] if e.text_len else b"")
        sys.stdout.buffer.flush()
        if e.finish:
            finish.append(e.finish)

    request = RequestOpts(tokens=tokens, n_tokens=n, sampling=rf.rf_sampling_default(),
                          max_tokens=64, n_logprobs=-1, on_event=on_event)
    check(rf.rf_engine_submit(engine, c.byref(request), None, c.byref(why)))
    while not finish and rf.rf_engine_step(engine) >= 0:
        pass
    print()
    rf.rf_engine_close(engine)
    sys.exit(0 if finish and finish[0] < 3 else 1)


if __name__ == "__main__":
    main()
