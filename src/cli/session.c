/* session.c - engine, request and prompt from flags. */
#include "cli/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/utf8.h"

enum { MAX_PROMPT_BYTES = 256 << 20, USUAL_SPARE = 25 /* percent */ };

rf_status rf_session_error(int status, const rf_text *why, rf_error *e) {
    if (status == ROCMFORGE_OK) return RF_OK;
    return rf_fail(e, (rf_status)status, "%s",
                   why->text[0] ? why->text : rf_status_name((rf_status)status));
}

const char *rf_session_backend(rf_cli *c) {
    const char *name = rf_cli_str(c, RF_F_BACKEND);
    if (strcmp(name, "auto") != 0) return name;
    if (rf_cli_bool(c, RF_F_REQUIRE_GPU)) return "gpu";
    return rf_cli_int(c, RF_F_GPU_LAYERS) == 0 ? "cpu" : name;
}

rf_status rf_session_where(rf_cli *c, rf_engine_opts *o, rf_error *e) {
    int64_t n = rf_cli_int(c, RF_F_GPU_LAYERS);
    o->backend = rf_session_backend(c);
    o->devices = rf_cli_str(c, RF_F_DEVICE);
    o->gpu_layers = n > 0 ? (uint32_t)n : 0;
    o->fast_floats = rf_cli_bool(c, RF_F_FAST_FLOATS);
    int64_t spare = rf_cli_int(c, RF_F_SPARE_MEMORY);
    o->spare_percent = spare < 0 ? USUAL_SPARE : (uint32_t)spare;
    o->huge_pages = rf_cli_bool(c, RF_F_HUGE_PAGES);
    if (n != 0 || strcmp(o->backend, "gpu") != 0) return RF_OK;
    return rf_fail(e, RF_EARG,
                   "--gpu-layers 0 leaves nothing to the GPU that --require-gpu or --backend gpu "
                   "asks for");
}

void rf_session_speculation(rf_cli *c, rf_engine_opts *o) {
    o->speculate = rf_cli_str(c, RF_F_SPECULATE);
    o->draft_model_path = rf_cli_str(c, RF_F_DRAFT_MODEL);
    o->draft_max = (uint32_t)rf_cli_int(c, RF_F_DRAFT_MAX);
    o->draft_min = (uint32_t)rf_cli_int(c, RF_F_DRAFT_MIN);
}

void rf_session_announce(rf_cli *c, const rf_engine *en) {
    rf_engine_info info;
    rf_engine_get_info(en, &info);
    if (rf_engine_stages(en, NULL, 0) > 1)
        fprintf(stderr, "running %s\n", info.backend);
    else if (strcmp(rf_session_backend(c), "auto") == 0 && strncmp(info.backend, "gpu", 3) == 0)
        fprintf(stderr, "running on %s\n", info.backend);
}

rf_status rf_session_open_path(rf_cli *c, const char *path, uint32_t n_ctx, uint32_t keep_batch,
                               rf_engine **out, rf_error *e) {
    *out = NULL;
    rf_text why;
    rf_engine_opts o = {
        .model_path = path,
        .kv_type = rf_cli_str(c, RF_F_KV_TYPE),
        .n_threads = (int)rf_cli_int(c, RF_F_THREADS),
        .n_ctx = n_ctx,
        .batch_tokens = keep_batch ? keep_batch : (uint32_t)rf_cli_int(c, RF_F_BATCH),
        .max_seqs = 1,
        .keep_activations = keep_batch != 0,
    };
    RF_TRY(rf_session_where(c, &o, e));
    rf_session_speculation(c, &o);
    RF_TRY(rf_session_error(rf_engine_open(out, &o, &why), &why, e));
    rf_session_announce(c, *out);
    return RF_OK;
}

rf_status rf_session_open(rf_cli *c, uint32_t n_ctx_min, rf_engine **out, rf_error *e) {
    const char *path;
    uint32_t n_ctx = (uint32_t)rf_cli_int(c, RF_F_CTX);
    *out = NULL;
    RF_TRY(rf_cli_model_path(c, &path, e));
    return rf_session_open_path(c, path, n_ctx_min > n_ctx ? n_ctx_min : n_ctx, 0, out, e);
}

static rf_status parse_bias(const char *text, rf_logit_bias *out, rf_error *e) {
    char *end;
    long id = strtol(text, &end, 10);
    if (end != text && *end == '=' && id >= 0 && id <= INT32_MAX) {
        const char *number = end + 1;
        float bias = strtof(number, &end);
        *out = (rf_logit_bias){(int32_t)id, bias};
        if (end != number && !*end && !isnan(bias)) return RF_OK;
    }
    return rf_fail(e, RF_EARG, "--logit-bias: '%.80s' is not ID=NUMBER, such as 42=-1.5 or 42=-inf",
                   text);
}

static rf_sampling sampling_of(rf_cli *c) {
    return (rf_sampling){
        .temperature = (float)rf_cli_num(c, RF_F_TEMP),
        .top_k = (int32_t)rf_cli_int(c, RF_F_TOP_K),
        .top_p = (float)rf_cli_num(c, RF_F_TOP_P),
        .min_p = (float)rf_cli_num(c, RF_F_MIN_P),
        .typical_p = (float)rf_cli_num(c, RF_F_TYPICAL),
        .top_n_sigma = (float)rf_cli_num(c, RF_F_TOP_N_SIGMA),
        .xtc_probability = (float)rf_cli_num(c, RF_F_XTC_P),
        .xtc_threshold = (float)rf_cli_num(c, RF_F_XTC_T),
        .repeat_penalty = (float)rf_cli_num(c, RF_F_REPEAT),
        .presence_penalty = (float)rf_cli_num(c, RF_F_PRESENCE),
        .frequency_penalty = (float)rf_cli_num(c, RF_F_FREQUENCY),
        .penalty_last_n = (int32_t)rf_cli_int(c, RF_F_LAST_N),
        .dry_multiplier = (float)rf_cli_num(c, RF_F_DRY),
        .dry_base = (float)rf_cli_num(c, RF_F_DRY_BASE),
        .dry_allowed_length = (int32_t)rf_cli_int(c, RF_F_DRY_LEN),
        .dry_last_n = (int32_t)rf_cli_int(c, RF_F_DRY_LAST_N),
        .mirostat = rf_cli_bool(c, RF_F_MIROSTAT),
        .mirostat_tau = (float)rf_cli_num(c, RF_F_MIRO_TAU),
        .mirostat_eta = (float)rf_cli_num(c, RF_F_MIRO_ETA),
        .seed =
            rf_cli_given(c, RF_F_SEED) ? (uint64_t)rf_cli_int(c, RF_F_SEED) : rf_random_u64() >> 11,
    };
}

rf_status rf_session_request(rf_cli *c, rf_request_opts *o, rf_logit_bias **bias, rf_error *e) {
    const char *const *list;
    size_t n = rf_cli_list(c, RF_F_BIAS, &list);
    *o = (rf_request_opts){
        .sampling = sampling_of(c),
        .max_tokens = (int32_t)rf_cli_int(c, RF_F_N),
        .min_tokens = (int32_t)rf_cli_int(c, RF_F_MIN_TOKENS),
        .n_logprobs = -1,
        .ignore_eos = rf_cli_bool(c, RF_F_IGNORE_EOS),
    };
    if (o->max_tokens == 0)
        return rf_fail(e, RF_EARG,
                       "-n 0 generates nothing: give a positive number, or -1 for no limit");
    o->n_stop = rf_cli_list(c, RF_F_STOP, &o->stop);
    *bias = rf_alloc(n, sizeof **bias);
    if (!*bias) return rf_fail_nomem(e, n * sizeof **bias);
    for (size_t i = 0; i < n; i++) {
        rf_status s = parse_bias(list[i], &(*bias)[i], e);
        if (s == RF_OK) continue;
        rf_free(*bias);
        *bias = NULL;
        return s;
    }
    o->sampling.logit_bias = *bias;
    o->sampling.n_logit_bias = n;
    return RF_OK;
}

/* The texts between commas, as a JSON array. */
static void put_choices(rf_buf *out, const char *list) {
    rf_buf_putc(out, '[');
    for (const char *end; *list || out->len == 1; list = *end ? end + 1 : end) {
        end = strchrnul(list, ',');
        rf_buf_puts(out, out->len > 1 ? "," : "");
        rf_buf_json_str(out, (rf_str){list, (size_t)(end - list)});
    }
    rf_buf_putc(out, ']');
}

rf_status rf_session_grammar(rf_cli *c, rf_engine *en, rf_grammar **out, rf_error *e) {
    static const struct {
        rf_flag_id flag;
        rf_grammar_kind kind;
        bool from_file; /* @FILE */
    } kinds[] = {{RF_F_GRAMMAR, RF_GRAMMAR_GBNF, true},
                 {RF_F_SCHEMA, RF_GRAMMAR_JSON_SCHEMA, true},
                 {RF_F_REGEX, RF_GRAMMAR_REGEX, false},
                 {RF_F_CHOICE, RF_GRAMMAR_CHOICE, false}};
    size_t n_given = 0, k = 0;
    *out = NULL;
    for (size_t i = 0; i < RF_COUNT(kinds); i++) {
        if (!rf_cli_given(c, kinds[i].flag)) continue;
        n_given++;
        k = i;
    }
    if (n_given == 0) return RF_OK;
    if (n_given > 1)
        return rf_fail(e, RF_EARG,
                       "give one of --grammar, --json-schema, --regex and --choice only");
    const char *given = rf_cli_str(c, kinds[k].flag);
    if (rf_utf8_valid_prefix(given, strlen(given)) != strlen(given))
        return rf_fail(e, RF_EARG, "--%s: not UTF-8", rf_flag_get(kinds[k].flag)->name);
    rf_buf text = {0};
    rf_text why;
    rf_status s = RF_OK;
    if (kinds[k].kind == RF_GRAMMAR_CHOICE)
        put_choices(&text, given);
    else if (kinds[k].from_file && given[0] == '@')
        s = rf_session_read(given + 1, NULL, &text, e);
    else
        rf_buf_puts(&text, given);
    if (s == RF_OK && text.failed) s = rf_fail_nomem(e, strlen(given));
    if (s == RF_OK)
        s = rf_session_error(
            rf_grammar_open(en, kinds[k].kind, rf_buf_str(&text).p, text.len, out, &why), &why, e);
    rf_buf_free(&text);
    return s;
}

rf_status rf_session_tokenize(const rf_engine *en, rf_str text, bool add_special,
                              bool parse_special, rf_ids *ids, rf_error *e) {
    size_t n = text.len + 16, cap = 0; /* usually enough; asked again where it is not */
    int status = ROCMFORGE_OK;
    rf_text why;
    int32_t *out = NULL;
    while (status == ROCMFORGE_OK && n > cap) {
        rf_free(out);
        cap = n;
        out = rf_alloc(cap, sizeof *out);
        if (!out) return rf_fail_nomem(e, cap * sizeof *out);
        status = rf_engine_tokenize(en, text.p, text.len, add_special, parse_special, out, cap, &n,
                                    &why);
    }
    for (size_t i = 0; status == ROCMFORGE_OK && i < n; i++)
        rf_ids_push(ids, out[i]);
    rf_free(out);
    if (ids->failed) return rf_fail_nomem(e, n * sizeof(int32_t));
    return rf_session_error(status, &why, e);
}

rf_status rf_session_read(const char *file, const char *text, rf_buf *out, rf_error *e) {
    bool from_stdin = !file && text && strcmp(text, "-") == 0;
    if (!file && !from_stdin) {
        rf_buf_puts(out, text);
        return out->failed ? rf_fail_nomem(e, strlen(text)) : RF_OK;
    }
    uint8_t *bytes;
    size_t n;
    RF_TRY(rf_file_read(from_stdin ? "-" : file, MAX_PROMPT_BYTES, &bytes, &n, e));
    rf_buf_put(out, bytes, n);
    rf_free(bytes);
    return out->failed ? rf_fail_nomem(e, n) : RF_OK;
}

rf_status rf_session_parse_ids(const char *text, rf_ids *ids, rf_error *e) {
    rf_buf list = {0};
    RF_TRY(rf_session_read(text[0] == '@' ? text + 1 : NULL, text, &list, e));
    rf_status s = RF_OK;
    const char *p = list.len ? list.p : "";
    for (;;) {
        p += strspn(p, ", \t\r\n");
        if (!*p || s != RF_OK) break;
        char *end;
        long id = strtol(p, &end, 10);
        if (end == p || id < 0 || id > INT32_MAX || (*end && !strchr(", \t\r\n", *end)))
            s = rf_fail(
                e, RF_EARG,
                "'%.20s' is not a token id; ids are whole numbers from 0, separated by commas", p);
        else
            rf_ids_push(ids, (int32_t)id);
        p = end;
    }
    rf_buf_free(&list);
    if (s == RF_OK && ids->failed) s = rf_fail_nomem(e, ids->len);
    return s;
}
