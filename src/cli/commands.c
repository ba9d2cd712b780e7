/* commands.c - the table of commands.  Help, man page, completions and dispatch all read it. */
#include "cli/cli.h"

#define SAMPLING                                                                         \
    (RF_F(SEED) | RF_F(TEMP) | RF_F(TOP_K) | RF_F(TOP_P) | RF_F(MIN_P) | RF_F(TYPICAL) | \
     RF_F(TOP_N_SIGMA) | RF_F(XTC_P) | RF_F(XTC_T) | RF_F(REPEAT) | RF_F(PRESENCE) |     \
     RF_F(FREQUENCY) | RF_F(LAST_N) | RF_F(DRY) | RF_F(DRY_BASE) | RF_F(DRY_LEN) |       \
     RF_F(DRY_LAST_N) | RF_F(MIROSTAT) | RF_F(MIRO_TAU) | RF_F(MIRO_ETA) | RF_F(BIAS) |  \
     RF_F(STOP) | RF_F(MIN_TOKENS) | RF_F(IGNORE_EOS) | RF_F(N))
#define ENGINE                                                                                  \
    (RF_F(MODEL) | RF_F(MODELS_DIR) | RF_F(THREADS) | RF_F(CTX) | RF_F(BATCH) | RF_F(BACKEND) | \
     RF_F(KV_TYPE))
#define VOCAB (RF_F(MODEL) | RF_F(MODELS_DIR) | RF_F(TOKENIZER))

const rf_command rf_commands[] = {
    {"generate", "[PROMPT]", 0, 1,
     ENGINE | SAMPLING | RF_F(PROMPT) | RF_F(FILE) | RF_F(TOKENS) | RF_F(LOGPROBS) | RF_F(ECHO) |
         RF_F(PARSE_SPECIAL),
     "continue a text",
     "Prints the text as it is generated.  With --json prints one object with the text, the "
     "tokens, "
     "the reason it ended and timings.",
     rf_cmd_generate},
    {"chat", "", 0, 0, ENGINE | SAMPLING | RF_F(SYSTEM) | RF_F(FORMAT), "talk with a model",
     "Reads a line, answers, and keeps the conversation.  Ctrl-C stops the answer, Ctrl-D or /exit "
     "ends the program, /help lists the other commands.  When standard input is no terminal each "
     "line of it is one message.",
     rf_cmd_chat},
    {"tokenize", "[TEXT]", 0, 1, VOCAB | RF_F(ADD_SPECIAL) | RF_F(PARSE_SPECIAL) | RF_F(FILE),
     "turn text into token ids",
     "TEXT - reads standard input as bytes.  With --json prints an array of ids, without it one "
     "token a line with its text.",
     rf_cmd_tokenize},
    {"detokenize", "[ID...]", 0, -1, VOCAB | RF_F(TOKENS) | RF_F(PARSE_SPECIAL),
     "turn token ids into text",
     "Ids come as arguments or from --tokens.  --parse-special also prints control tokens.",
     rf_cmd_detokenize},
    {"logits", "", 0, 0, ENGINE | RF_F(TOKENS) | RF_F(OUT), "write the logits of every position",
     "Evaluates --tokens and writes little-endian 32-bit floats, [n_tokens][n_vocab], to --output.",
     rf_cmd_logits},
    {"bench", "", 0, 0,
     RF_F(MODEL) | RF_F(MODELS_DIR) | RF_F(THREADS) | RF_F(BATCH) | RF_F(BACKEND) | RF_F(KV_TYPE) |
         RF_F(BENCH_P) | RF_F(BENCH_N) | RF_F(REPS),
     "measure prompt processing and generation speed",
     "ppN: tokens per second over a prompt of N tokens.  tgN: tokens per second while generating N "
     "tokens after an empty context.  The median of the repetitions counts.",
     rf_cmd_bench},
    {"models", "", 0, 0, RF_F(MODELS_DIR), "list models at hand and supported architectures", NULL,
     rf_cmd_models},
    {"inspect", "FILE", 1, 1, RF_F(TENSORS), "show what a GGUF file holds", NULL, rf_cmd_inspect},
    {"gguf dump", "FILE", 1, 1, RF_F(ALL), "print every key and tensor of a GGUF file", NULL,
     rf_cmd_gguf_dump},
    {"gguf verify", "FILE", 1, 1, 0, "check a GGUF file down to every block", NULL,
     rf_cmd_gguf_verify},
    {"gguf dequant", "FILE TENSOR", 2, 2, RF_F(OUT), "write one tensor as 32-bit floats", NULL,
     rf_cmd_gguf_dequant},
    {"quantize", "IN OUT TYPE", 3, 3,
     RF_F(THREADS) | RF_F(TENSOR_TYPE) | RF_F(IMATRIX) | RF_F(DRY_RUN), "make a GGUF file smaller",
     "TYPE is a mix: Q2_K, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M, Q6_K, IQ4_XS or "
     "IQ4_NL, or one format for (nearly) all weights: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
     "Q8_0, "
     "TQ1_0, TQ2_0, MXFP4, and MXFP6_E2M3 and MXFP6_E3M2, which are private to this program: "
     "others "
     "refuse such files.  --tensor-type also takes Q2_K to Q6_K as plain formats.  Norms and other "
     "small tensors stay as they are.",
     rf_cmd_quantize},
    {"doctor", "", 0, 0, RF_F(THREADS), "check this machine and say what will be used", NULL,
     rf_cmd_doctor},
    {"version", "", 0, 0, 0, "print version and build", NULL, rf_cmd_version},
    {"help", "[COMMAND...]", 0, 2, 0, "show help", NULL, rf_cmd_help},
    {"man", "", 0, 0, 0, "print the man page (mdoc)", NULL, rf_cmd_man},
    {"completions", "SHELL", 1, 1, 0, "print completions for bash, zsh or fish", NULL,
     rf_cmd_completions},
};
const size_t rf_command_count = RF_COUNT(rf_commands);
