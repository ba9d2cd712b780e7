/* commands.c - the table of commands.  Help, man page, completions and dispatch all read it. */
#include "cli/cli.h"

/* A list of flags as rf_command holds it. */
#define FLAGS(...) \
    (const uint8_t[]) { __VA_ARGS__, RF_F_COUNT }
#define SAMPLING                                                                                   \
    RF_F_SEED, RF_F_TEMP, RF_F_TOP_K, RF_F_TOP_P, RF_F_MIN_P, RF_F_TYPICAL, RF_F_TOP_N_SIGMA,      \
        RF_F_XTC_P, RF_F_XTC_T, RF_F_REPEAT, RF_F_PRESENCE, RF_F_FREQUENCY, RF_F_LAST_N, RF_F_DRY, \
        RF_F_DRY_BASE, RF_F_DRY_LEN, RF_F_DRY_LAST_N, RF_F_MIROSTAT, RF_F_MIRO_TAU, RF_F_MIRO_ETA, \
        RF_F_BIAS, RF_F_STOP, RF_F_MIN_TOKENS, RF_F_IGNORE_EOS, RF_F_N
#define WHERE                                                                       \
    RF_F_BACKEND, RF_F_DEVICE, RF_F_GPU_LAYERS, RF_F_REQUIRE_GPU, RF_F_FAST_FLOATS, \
        RF_F_SPARE_MEMORY, RF_F_HUGE_PAGES
#define LIMITS  RF_F_MODELS_DIR, RF_F_THREADS, RF_F_CTX, RF_F_BATCH, WHERE, RF_F_KV_TYPE
#define ENGINE  RF_F_MODEL, LIMITS
#define GUESSES RF_F_SPECULATE, RF_F_DRAFT_MODEL, RF_F_DRAFT_MAX, RF_F_DRAFT_MIN
#define VOCAB   RF_F_MODEL, RF_F_MODELS_DIR, RF_F_TOKENIZER

const rf_command rf_commands[] = {
    {"generate", "[PROMPT]", 0, 1,
     FLAGS(ENGINE, GUESSES, SAMPLING, RF_F_PROMPT, RF_F_FILE, RF_F_TOKENS, RF_F_LOGPROBS, RF_F_ECHO,
           RF_F_PARSE_SPECIAL, RF_F_GRAMMAR, RF_F_SCHEMA, RF_F_REGEX, RF_F_CHOICE, RF_F_LOAD_STATE,
           RF_F_SAVE_STATE),
     "continue a text",
     "Prints the text as it is generated.  With --json prints one object with the text, the "
     "tokens, "
     "the reason it ended and timings.",
     rf_cmd_generate},
    {"chat", "", 0, 0, FLAGS(ENGINE, GUESSES, SAMPLING, RF_F_SYSTEM, RF_F_FORMAT),
     "talk with a model",
     "Reads a line, answers, and keeps the conversation.  Ctrl-C stops the answer, Ctrl-D or /exit "
     "ends the program, /help lists the other commands.  When standard input is no terminal each "
     "line of it is one message.",
     rf_cmd_chat},
    {"serve", "", 0, 0,
     FLAGS(RF_F_MODEL_FILES, LIMITS, GUESSES, RF_F_MODELS_BUDGET, RF_F_MODEL_TTL, RF_F_OTLP,
           RF_F_OTLP_HEADERS, RF_F_ADDR, RF_F_ALIAS, RF_F_PARALLEL, RF_F_KV_TOKENS, RF_F_SWAP_MB,
           RF_F_PREFIX_PER_KEY, RF_F_ITL_TARGET, RF_F_QUEUE, RF_F_FORMAT, RF_F_TOOL_FORMAT,
           RF_F_KEYS, RF_F_TLS_CERT, RF_F_TLS_KEY, RF_F_CORS, RF_F_HOSTS, RF_F_CONNECTIONS,
           RF_F_MAX_BODY, RF_F_IDLE_S, RF_F_REQUEST_S, RF_F_DRAIN_S, RF_F_PING_S),
     "answer requests over HTTP",
     "Serves OpenAI's API (/v1/chat/completions, /v1/completions, /v1/models) and its own, which "
     "/openapi.json describes.  Prints its address when it listens.  SIGTERM and Ctrl-C finish "
     "what "
     "was accepted and end the program with 0; a second one ends it at once.",
     rf_cmd_serve},
    {"tokenize", "[TEXT]", 0, 1, FLAGS(VOCAB, RF_F_ADD_SPECIAL, RF_F_PARSE_SPECIAL, RF_F_FILE),
     "turn text into token ids",
     "TEXT - reads standard input as bytes.  With --json prints an array of ids, without it one "
     "token a line with its text.",
     rf_cmd_tokenize},
    {"detokenize", "[ID...]", 0, -1, FLAGS(VOCAB, RF_F_TOKENS, RF_F_PARSE_SPECIAL),
     "turn token ids into text",
     "Ids come as arguments or from --tokens.  --parse-special also prints control tokens.",
     rf_cmd_detokenize},
    {"embed", "[TEXT...]", 0, -1,
     FLAGS(ENGINE, RF_F_TEXTS, RF_F_TOKENS, RF_F_PARSE_SPECIAL, RF_F_POOLING, RF_F_NORMALIZE,
           RF_F_SIMILARITY),
     "turn texts into vectors",
     "Prints one vector a line, or with --similarity the cosines of all pairs.  Any model works; "
     "one made for it (BERT and its kin, Qwen3-Embedding) works well.  A reranker prints scores.",
     rf_cmd_embed},
    {"logits", "", 0, 0, FLAGS(ENGINE, RF_F_TOKENS, RF_F_OUT), "write the logits of every position",
     "Evaluates --tokens and writes little-endian 32-bit floats, [n_tokens][n_vocab], to --output.",
     rf_cmd_logits},
    {"bench serve", "", 0, 0,
     FLAGS(RF_F_URL, RF_F_SERVED, RF_F_KEY_ENV, RF_F_KEY_FILE, RF_F_REQUESTS, RF_F_CONCURRENCY,
           RF_F_RATE, RF_F_WORKLOAD, RF_F_LOAD_PREFIX, RF_F_LOAD_P, RF_F_LOAD_N, RF_F_SPREAD,
           RF_F_LOAD_TEMP, RF_F_LOAD_TOP_K, RF_F_LOAD_TOP_P, RF_F_LOAD_SEED, RF_F_CANCEL, RF_F_IDLE,
           RF_F_WARMUP, RF_F_LOAD_TIMEOUT, RF_F_PLOT),
     "measure a server under load",
     "Sends streaming completions to any server that speaks OpenAI's API: --concurrency at a time, "
     "or as they arrive by --rate.  Prints the time to the first token, between tokens and of "
     "whole "
     "answers, tokens per second and failures by kind; a failure makes the exit code 1.  With two "
     "--url the same load goes to one after the other, and ratios are printed.",
     rf_cmd_bench_serve},
    {"bench", "", 0, 0,
     FLAGS(RF_F_MODEL, RF_F_MODELS_DIR, RF_F_BENCH_THREADS, RF_F_BATCH, WHERE, RF_F_KV_TYPE,
           GUESSES, RF_F_BENCH_P, RF_F_BENCH_N, RF_F_BENCH_DEPTH, RF_F_BENCH_STREAMS, RF_F_REPS,
           RF_F_BENCH_FORMAT, RF_F_COMPARE, RF_F_ROOFLINE),
     "measure prompt processing and generation speed",
     "ppN: tokens per second over a prompt of N tokens.  tgN: tokens per second while generating N "
     "tokens after an empty context, or after --depth tokens.  The median of the repetitions "
     "counts.  "
     "Lists of numbers are separated by commas.  On the CPU, rates are also given as shares of "
     "what its "
     "memory and its arithmetic reach, measured in the same run.  With --compare the other program "
     "runs "
     "after each run of ours.",
     rf_cmd_bench},
    {"models", "", 0, 0, FLAGS(RF_F_MODELS_DIR), "list models at hand and supported architectures",
     NULL, rf_cmd_models},
    {"pull", "URL", 1, 1, FLAGS(RF_F_MODELS_DIR, RF_F_OUT, RF_F_SHA256), "fetch a model",
     "Fetches a GGUF file into the directory of models (ROCMFORGE_MODELS, --models-dir, else "
     "~/.local/share/rocmforge/models), or to --output.  Of a split model, name the first file: "
     "the "
     "others follow.  After an interruption the same command goes on where it stopped.",
     rf_cmd_pull},
    {"inspect", "FILE", 1, 1, FLAGS(RF_F_TENSORS), "show what a GGUF file holds", NULL,
     rf_cmd_inspect},
    {"gguf dump", "FILE", 1, 1, FLAGS(RF_F_ALL), "print every key and tensor of a GGUF file", NULL,
     rf_cmd_gguf_dump},
    {"gguf verify", "FILE", 1, 1, NULL, "check a GGUF file down to every block", NULL,
     rf_cmd_gguf_verify},
    {"gguf dequant", "FILE TENSOR", 2, 2, FLAGS(RF_F_OUT), "write one tensor as 32-bit floats",
     NULL, rf_cmd_gguf_dequant},
    {"gguf split", "IN OUT", 2, 2, FLAGS(RF_F_SPLIT_SIZE, RF_F_SPLIT_TENSORS),
     "cut a GGUF file into parts",
     "OUT.gguf becomes OUT-00001-of-0000N.gguf and so on; metadata is in the first part.  One part "
     "alone is called OUT.gguf.  A tensor larger than the limit is a part of its own.",
     rf_cmd_gguf_split},
    {"gguf merge", "IN OUT", 2, 2, NULL, "make one GGUF file of its parts",
     "IN is any of the parts; the others are found beside it.", rf_cmd_gguf_merge},
    {"gguf diff", "A B", 2, 2, NULL, "compare the keys and values of two GGUF files",
     "Lists keys and tensors that only one file has or that differ, with the root mean square of "
     "what differs in values.  Exit codes are those of diff(1): 0 the same, 1 different, more for "
     "trouble.",
     rf_cmd_gguf_diff},
    {"quantize", "IN OUT TYPE", 3, 3,
     FLAGS(RF_F_THREADS, RF_F_TENSOR_TYPE, RF_F_IMATRIX, RF_F_SPLIT_SIZE, RF_F_SPLIT_TENSORS,
           RF_F_DRY_RUN),
     "make a GGUF file smaller",
     "TYPE is a mix: IQ2_XXS, IQ2_XS, IQ2_S, IQ2_M, Q2_K_S, Q2_K, IQ3_XXS, IQ3_XS, IQ3_S, IQ3_M, "
     "Q3_K_S, Q3_K_M, Q3_K_L, IQ4_XS, IQ4_NL, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M or Q6_K, or one "
     "format for (nearly) all weights: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0, "
     "MXFP4, and MXFP6_E2M3 and MXFP6_E3M2, which are private to this program: others refuse such "
     "files.  --tensor-type also takes Q2_K to Q6_K as plain formats.  Norms and other small "
     "tensors stay as they are.",
     rf_cmd_quantize},
    {"imatrix", "", 0, 0,
     FLAGS(RF_F_MODEL, RF_F_MODELS_DIR, RF_F_THREADS, RF_F_CTX, RF_F_BATCH, WHERE, RF_F_KV_TYPE,
           RF_F_FILE, RF_F_OUT, RF_F_CHUNKS, RF_F_PARSE_SPECIAL),
     "measure which columns of a model's weights matter",
     "Runs the model over the text of --file in chunks of --ctx tokens (0: 512) and writes the "
     "sums "
     "of squares of what went into each matrix product to --output, for quantize --imatrix.",
     rf_cmd_imatrix},
    {"perplexity", "", 0, 0,
     FLAGS(RF_F_MODEL, RF_F_MODELS_DIR, RF_F_THREADS, RF_F_CTX, RF_F_BATCH, WHERE, RF_F_KV_TYPE,
           RF_F_FILE, RF_F_CHUNKS, RF_F_SAVE_LOGITS, RF_F_KL_BASE, RF_F_REFERENCE,
           RF_F_PARSE_SPECIAL),
     "measure how well a model predicts a text",
     "The text of --file is cut into chunks of --ctx tokens (0: 512); the second half of each is "
     "scored.  With --kl-base or --reference it also prints how far the model's probabilities are "
     "from those of another: Kullback-Leibler divergence, changes of the right token's "
     "probability, "
     "and how often the likeliest token is the same.",
     rf_cmd_perplexity},
    {"doctor", "", 0, 0, FLAGS(RF_F_THREADS), "check this machine and say what will be used", NULL,
     rf_cmd_doctor},
    {"plan", "[MODEL]", 0, 1,
     FLAGS(RF_F_MODEL, RF_F_MODELS_DIR, RF_F_THREADS, RF_F_CTX, RF_F_BATCH, WHERE, RF_F_KV_TYPE,
           RF_F_PARALLEL, RF_F_KV_TOKENS, RF_F_MEMORY),
     "say how much memory a model takes",
     "Counts what opening the model would take on each GPU and on the CPU, byte by byte, without "
     "taking it, and says which contexts fit for how many requests at once.  --memory asks the "
     "same "
     "for a device that is not here.",
     rf_cmd_plan},
    {"selftest", "", 0, 0, FLAGS(RF_F_ONE_DEVICE, RF_F_SEED, RF_F_REPORT),
     "compare every GPU kernel with the CPU, on this GPU",
     "Runs each kernel on random numbers in every number format and compares the results with the "
     "CPU's, bit by bit.  Kernels that fail are left out from then on, until the driver or the "
     "program changes.  Exit code 1: some failed.",
     rf_cmd_selftest},
    {"version", "", 0, 0, NULL, "print version and build", NULL, rf_cmd_version},
    {"help", "[COMMAND...]", 0, 2, NULL, "show help", NULL, rf_cmd_help},
    {"man", "", 0, 0, NULL, "print the man page (mdoc)", NULL, rf_cmd_man},
    {"completions", "SHELL", 1, 1, NULL, "print completions for bash, zsh or fish", NULL,
     rf_cmd_completions},
};
const size_t rf_command_count = RF_COUNT(rf_commands);
