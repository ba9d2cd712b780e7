/* engine.c - the public API: a model, a backend, and the calls of any thread.  The loop that turns
 * requests into batches is step.c's. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/activations.h"
#include "engine/state.h"

enum {
    MOST_SPARE = 90, /* percent */
    DEFAULT_CTX = 8192,
    DEFAULT_SEQS = 8,
    MIN_KV_TOKENS = 4096,
    MIN_OUTPUTS = 16, /* rows of logits at once in rf_engine_logits */
    MAX_SEQS = 1024,
    MAX_BATCH = 65536,
    MAX_ITL_MS = 60000,
    SPARE_SNAPSHOTS = 8, /* of state, beside one for each request at once */
};

_Static_assert((int)ROCMFORGE_ENOMEM == (int)RF_ENOMEM && (int)ROCMFORGE_EFULL == (int)RF_EFULL &&
                   (int)ROCMFORGE_EARG == (int)RF_EARG &&
                   (int)ROCMFORGE_ECANCELLED == (int)RF_ECANCELLED,
               "public and internal status codes are the same numbers");

const char *rf_version(void) { return RF_VERSION; }

const char *rf_architecture(size_t i, const char **families) {
    if (i >= rf_arch_count()) return NULL;
    if (families) *families = rf_arch_at(i)->families;
    return rf_arch_at(i)->name;
}

static int give(rf_status s, const rf_error *e, rf_text *why) {
    if (why) memcpy(why->text, e->text, sizeof why->text);
    if (why && s == RF_OK) why->text[0] = 0;
    return (int)s;
}
_Static_assert(sizeof(((rf_error *)0)->text) == sizeof(((rf_text *)0)->text),
               "texts are copied whole");

/* ---- GPUs ---- */

const char *rf_gpu_target(size_t i) { return rf_gpu_built_target(i); }

int rf_gpu_find(size_t i, rf_gpu_device *out, rf_text *why) {
    rf_error e = {0};
    rf_gpu_found g;
    rf_status s = rf_gpu_probe(i, &g, &e);
    *out = (rf_gpu_device){.driver_version = g.driver_version,
                           .integrated = g.integrated,
                           .mem_bytes = g.mem_bytes,
                           .mem_free = g.mem_free};
    memcpy(out->name, g.name, sizeof out->name);
    memcpy(out->arch, g.arch, sizeof out->arch);
    memcpy(out->target, g.target, sizeof out->target);
    memcpy(out->library, g.library, sizeof out->library);
    return give(s, &e, why);
}

/* ---- open and close ---- */

/* Who says how many layers GPUs shall have, asks for GPUs. */
static bool is_auto(const rf_engine_opts *o) {
    return o->backend && !strcmp(o->backend, "auto") && o->gpu_layers == 0;
}

/* "TYPE" of keys and values, or "KEYS,VALUES". */
static rf_status choose_kv_types(rf_limits *l, const char *text, rf_error *e) {
    size_t n = strcspn(text, ",");
    rf_str k = {text, n}, v = text[n] ? rf_str_of(text + n + 1) : k;
    if (!rf_dtype_from_name(k, &l->k_type) || !rf_dtype_from_name(v, &l->v_type) ||
        !rf_kv_type_ok(l->k_type) || !rf_kv_type_ok(l->v_type))
        return rf_fail(e, RF_EARG,
                       "KV type '%.40s' is not supported; known are f16, f32, bf16, q8_0 and "
                       "q4_0, or two of them as KEYS,VALUES",
                       text);
    return RF_OK;
}

/* "0", or "0,1,3". */
static rf_status choose_devices(rf_backend_opts *b, const rf_engine_opts *o, rf_error *e) {
    const char *at = o->devices;
    b->device = (int)o->device;
    while (at) {
        char *end = NULL;
        unsigned long n = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (!end || (*end && *end != ',') || n > INT32_MAX || b->n_devices == RF_MAX_DEVICES)
            return rf_fail(e, RF_EARG,
                           "GPUs '%.40s': expected a number, or up to %d of them such as 0,1",
                           o->devices, RF_MAX_DEVICES);
        b->devices[b->n_devices++] = (int)n;
        at = *end ? end + 1 : NULL;
    }
    if (b->n_devices == 0) b->devices[b->n_devices++] = b->device;
    b->device = b->devices[0];
    return RF_OK;
}

static rf_status choose_backend_opts(rf_backend_opts *b, const rf_engine_opts *o, rf_error *e) {
    *b = (rf_backend_opts){.n_threads = o->n_threads, .gpu_layers = o->gpu_layers};
    b->gpu_only = !is_auto(o) && o->gpu_layers == 0;
    b->fast_floats = o->fast_floats;
    b->huge_pages = o->huge_pages;
    if (o->spare_percent > MOST_SPARE)
        return rf_fail(e, RF_EARG, "spare_percent %u, expected at most %d", o->spare_percent,
                       MOST_SPARE);
    /* A draft model is yet to come. */
    b->spare_percent = o->draft_model_path ? 0 : o->spare_percent;
    return choose_devices(b, o, e);
}

static rf_status choose_backend(rf_engine *en, const rf_engine_opts *o, rf_error *e) {
    const rf_backend_ops *const all[] = {&rf_cpu_ops, &rf_gpu_ops, &rf_ref_ops};
    const char *name = !o->backend ? "cpu" : strcmp(o->backend, "auto") == 0 ? "gpu" : o->backend;
    for (size_t i = 0; i < RF_COUNT(all); i++)
        if (strcmp(all[i]->name, name) == 0) en->ops = all[i];
    if (!en->ops)
        return rf_fail(e, RF_EARG, "there is no backend '%.40s'; known are auto, cpu, gpu and ref",
                       name);
    rf_backend_opts bo;
    RF_TRY(choose_backend_opts(&bo, o, e));
    if (o->gpu_layers && en->ops != &rf_gpu_ops)
        return rf_fail(e, RF_EARG, "%u layers on GPUs are asked for, but backend '%.40s'",
                       o->gpu_layers, name);
    if (en->ops == &rf_gpu_ops && (bo.n_devices > 1 || o->gpu_layers)) en->ops = &rf_split_ops;
    return choose_kv_types(&en->limits, o->kv_type ? o->kv_type : "f16", e);
}

/* Slots of state for requests at once and for snapshots. */
static rf_status choose_states(rf_engine *en, bool guesses, rf_error *e) {
    if (!en->model->recurrent) return RF_OK;
    en->limits.n_states = 2 * en->limits.max_seqs + SPARE_SNAPSHOTS;
    if (!guesses) return RF_OK;
    return rf_fail(e, RF_EUNSUPPORTED,
                   "layers of a %s model keep a state, which cannot take a wrong guess back; leave "
                   "out speculation and the draft model",
                   en->model->arch->name);
}

/* Rows of a step: those asked for, else what is usual. */
static void set_batch(rf_engine *en, const rf_engine_opts *o, uint32_t usual) {
    rf_limits *l = &en->limits;
    l->max_tokens = o->batch_tokens ? o->batch_tokens : usual;
    if (l->max_tokens < l->max_seqs) l->max_tokens = l->max_seqs;
    l->max_outputs = en->most_outputs;
    if (l->max_outputs > l->max_tokens || o->keep_activations) l->max_outputs = l->max_tokens;
}

/* The usual rows of a CPU's step, where nobody asked for more; false: that is no fewer. */
static bool shorten_batch(rf_engine *en, const rf_engine_opts *o) {
    const uint32_t before = en->limits.max_tokens;
    set_batch(en, o, RF_USUAL_BATCH);
    return en->limits.max_tokens < before;
}

/* All but how many rows are usual for the device. */
static rf_status choose_limits(rf_engine *en, const rf_engine_opts *o, rf_error *e) {
    uint32_t trained = en->model->n_ctx_train;
    en->n_ctx = o->n_ctx ? o->n_ctx : trained && trained < DEFAULT_CTX ? trained : DEFAULT_CTX;
    if (en->n_ctx > RF_MAX_CONTEXT)
        return rf_fail(e, RF_EARG, "a context of %u tokens is over the limit of %u", en->n_ctx,
                       RF_MAX_CONTEXT);
    const rf_tensor *positions = en->model->pos_embd;
    if (positions && en->n_ctx > positions->rows)
        return rf_fail(e, RF_EARG,
                       "a context of %u tokens is more than the %u positions that the model has "
                       "learned",
                       en->n_ctx, positions->rows);
    rf_limits *l = &en->limits;
    l->max_seqs = o->max_seqs ? o->max_seqs : DEFAULT_SEQS;
    if (l->max_seqs > MAX_SEQS || o->batch_tokens > MAX_BATCH)
        return rf_fail(e, RF_EARG,
                       "%u requests or %u tokens at once are over the limits of %d and %d",
                       l->max_seqs, o->batch_tokens, MAX_SEQS, MAX_BATCH);
    en->spec_opts = (rf_spec_opts){.kind = o->speculate,
                                   .draft_path = o->draft_model_path,
                                   .draft_max = o->draft_max,
                                   .draft_min = o->draft_min};
    RF_TRY(rf_spec_check_opts(&en->spec_opts, l->max_seqs, &l->max_outputs, e));
    RF_TRY(choose_states(en, l->max_outputs > 0, e));
    en->most_outputs = l->max_outputs + l->max_seqs;
    if (en->most_outputs < MIN_OUTPUTS) en->most_outputs = MIN_OUTPUTS;
    set_batch(en, o, RF_USUAL_BATCH);
    en->table_stride = (en->n_ctx + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    uint32_t usual = MIN_KV_TOKENS / RF_KV_BLOCK;
    l->n_kv_blocks = o->n_kv_blocks             ? o->n_kv_blocks
                     : en->table_stride > usual ? en->table_stride
                                                : usual;
    if (l->n_kv_blocks < en->table_stride)
        return rf_fail(e, RF_EARG,
                       "%u KV blocks of %d tokens cannot hold a context of %u tokens; give the KV "
                       "cache more, or a shorter context",
                       l->n_kv_blocks, RF_KV_BLOCK, en->n_ctx);
    return RF_OK;
}

static rf_status alloc_arrays(rf_engine *en, rf_error *e) {
    const rf_limits *l = &en->limits;
    size_t table;
    if (!rf_mul_ok(l->max_seqs, en->table_stride, &table)) return rf_fail_nomem(e, SIZE_MAX);
    rf_engine_arrays *a = &en->a;
    a->token = rf_alloc(l->max_tokens, sizeof *a->token);
    a->pos = rf_alloc(l->max_tokens, sizeof *a->pos);
    a->seq_start = rf_alloc(l->max_seqs + 1, sizeof *a->seq_start);
    a->kv_len = rf_alloc(l->max_seqs, sizeof *a->kv_len);
    a->n_prefix = rf_alloc(l->max_seqs, sizeof *a->n_prefix);
    a->state = rf_alloc(l->max_seqs, sizeof *a->state);
    a->table = rf_alloc(table, sizeof *a->table);
    a->out_row = rf_alloc(l->max_outputs, sizeof *a->out_row);
    a->sched = rf_alloc(l->max_seqs, sizeof *a->sched);
    a->running = rf_alloc(l->max_seqs, sizeof *a->running);
    a->output = rf_alloc(l->max_outputs, sizeof *a->output);
    a->behind = rf_alloc(l->max_seqs, sizeof *a->behind);
    a->by_best = rf_alloc(l->max_outputs, sizeof *a->by_best);
    a->noise = rf_alloc(l->max_outputs, sizeof *a->noise);
    a->choice = rf_alloc(l->max_outputs, sizeof *a->choice);
    if (!a->token || !a->pos || !a->seq_start || !a->kv_len || !a->n_prefix || !a->state ||
        !a->table || !a->out_row || !a->sched || !a->running || !a->output || !a->behind ||
        !a->by_best || !a->noise || !a->choice)
        return rf_fail_nomem(e, table * sizeof *a->table);
    return RF_OK;
}

static rf_status read_facts(rf_engine *en, rf_error *e) {
    static const char *const keys[] = {"general.name", "general.architecture",
                                       "tokenizer.chat_template"};
    rf_buf *out[] = {&en->name, &en->arch, &en->chat_template};
    for (size_t i = 0; i < RF_COUNT(keys); i++) {
        rf_str text = {0};
        RF_TRY(rf_gguf_get_str(en->file, keys[i], &text, NULL, e));
        if (text.len) rf_buf_put(out[i], text.p, text.len);
        if (out[i]->failed) return rf_fail_nomem(e, text.len);
    }
    uint32_t n = rf_tokenizer_n_vocab(en->tokenizer);
    for (uint32_t id = 0; id < n; id++)
        if (rf_token_is_end(en->tokenizer, (int32_t)id)) rf_ids_push(&en->end_tokens, (int32_t)id);
    if (en->end_tokens.failed) return rf_fail_nomem(e, n);
    return rf_prompter_open(&en->prompter, en->file, en->tokenizer, e);
}

static rf_status open_embedder(rf_engine *en, rf_error *e) {
    if (en->embedder) return RF_OK;
    return rf_embedder_open(&en->embedder, en->ops, en->backend, en->model, &en->limits, en->n_ctx,
                            e);
}

/* What runs where, and what it takes; a backend that cannot tell has one stage of 0 bytes. */
static rf_status note_stages(rf_engine *en, const rf_backend_opts *bo, rf_error *e) {
    en->ops->describe(en->backend, en->backend_text, sizeof en->backend_text);
    if (en->ops == &rf_split_ops) {
        en->split = *rf_split_of(en->exec);
        return RF_OK;
    }
    rf_split_stage *only = en->split.stage;
    en->split.n = 1;
    *only = (rf_split_stage){.device = en->ops == &rf_gpu_ops ? bo->device : RF_CPU_STAGE,
                             .n_layers = en->model->n_layers};
    if (!en->exec || !en->ops->measure) return RF_OK;
    only->spare = en->ops->spare_bytes ? en->ops->spare_bytes(en->exec) : 0;
    return en->ops->measure(&only->need, en->plan, &en->limits, bo, e);
}

/* With the rows that are usual for the device, or if there is no memory for so many, fewer. */
static rf_status compile_plan(rf_engine *en, const rf_engine_opts *o, rf_error *e) {
    rf_status s = en->ops->compile(&en->exec, en->backend, en->plan, &en->limits, e);
    const uint32_t usual = en->limits.max_tokens;
    if (s != RF_ENOMEM || !shorten_batch(en, o)) return s;
    rf_log_write(RF_LOG_INFO, "steps of %u tokens, not %u: %s", en->limits.max_tokens, usual,
                 e->text);
    *e = (rf_error){.status = RF_OK};
    return en->ops->compile(&en->exec, en->backend, en->plan, &en->limits, e);
}

/* The backend, and the model on it. */
static rf_status open_backend(rf_engine *en, const rf_engine_opts *o, rf_error *e) {
    rf_backend_opts bo;
    RF_TRY(choose_backend_opts(&bo, o, e));
    RF_TRY(en->ops->open(&en->backend, &bo, e));
    set_batch(en, o, en->ops->usual_batch ? en->ops->usual_batch(en->backend) : RF_USUAL_BATCH);
    if (en->model->arch->encoder) {
        RF_TRY(open_embedder(en, e));
        return note_stages(en, &bo, e);
    }
    const rf_plan_opts po = {.keep_values = o->keep_activations, .n_ctx = en->n_ctx};
    RF_TRY(rf_plan_build(&en->plan, en->model, &po, e));
    RF_TRY(compile_plan(en, o, e));
    return note_stages(en, &bo, e);
}

static void close_backend(rf_engine *en) {
    if (en->exec) en->ops->exec_free(en->exec);
    en->exec = NULL;
    rf_embedder_free(en->embedder);
    en->embedder = NULL;
    if (en->backend) en->ops->close(en->backend);
    en->backend = NULL;
    rf_plan_free(en->plan);
    en->plan = NULL;
}

static bool may_split(const rf_engine *en, const rf_engine_opts *o) {
    return !en->model->arch->encoder && !o->keep_activations;
}

/* The GPU if it takes the model, or the GPU and the CPU together, else the CPU.  A GPU that is there but
 * not used, or not for all of the model, is worth a warning, a machine without one is not. */
static rf_status open_any_backend(rf_engine *en, const rf_engine_opts *o, rf_error *e) {
    rf_error why = {0};
    rf_status s = open_backend(en, o, &why);
    if (s == RF_ENOMEM && en->backend && en->ops == &rf_gpu_ops && may_split(en, o)) {
        const rf_error short_of = why;
        close_backend(en);
        en->ops = &rf_split_ops;
        why = (rf_error){.status = RF_OK};
        s = open_backend(en, o, &why);
        if (s == RF_OK) rf_log_write(RF_LOG_WARN, "some layers on the CPU: %s", short_of.text);
    }
    bool go_on = s == RF_EDEVICE || s == RF_EUNSUPPORTED || (s == RF_ENOMEM && en->backend);
    if (s == RF_OK) return RF_OK;
    if (!go_on) return rf_fail(e, s, "%s", why.text);
    rf_gpu_found any;
    bool is_there = rf_gpu_probe(0, &any, NULL) != RF_EUNSUPPORTED;
    rf_log_write(is_there ? RF_LOG_WARN : RF_LOG_INFO, "running on the CPU: %s", why.text);
    close_backend(en);
    en->ops = &rf_cpu_ops;
    return open_backend(en, o, e);
}

static rf_status open_states(rf_engine *en, rf_error *e) {
    const rf_limits *l = &en->limits;
    if (en->plan->state_floats == 0) return RF_OK;
    if (rf_states_create(&en->states, l->max_seqs, l->n_states - l->max_seqs) != RF_OK)
        return rf_fail_nomem(e, l->n_states);
    return RF_OK;
}

/* What requests need. */
static rf_status open_generation(rf_engine *en, const rf_engine_opts *o, rf_error *e) {
    if (rf_kv_create(&en->kv, en->limits.n_kv_blocks, RF_KV_BLOCK) != RF_OK)
        return rf_fail_nomem(e, en->limits.n_kv_blocks);
    atomic_store(&en->kv_free, en->limits.n_kv_blocks);
    RF_TRY(open_states(en, e));
    rf_swap_open(&en->swap, en->ops, en->exec, RF_KV_BLOCK, en->plan->state_floats, o->swap_bytes);
    const rf_drafter_target target = {.ops = en->ops,
                                      .backend = en->backend,
                                      .model = en->model,
                                      .tokenizer = en->tokenizer,
                                      .limits = &en->limits,
                                      .end_tokens = &en->end_tokens,
                                      .n_ctx = en->n_ctx};
    RF_TRY(rf_spec_open(&en->spec, &en->spec_opts, &target, e));
    return alloc_arrays(en, e);
}

static rf_status open_weights(rf_engine *en, const rf_engine_opts *o, rf_error *e) {
    RF_TRY(choose_backend(en, o, e));
    RF_TRY(rf_model_bind(&en->model, en->file, e));
    RF_TRY(choose_limits(en, o, e));
    if (o->measure_only) return RF_OK;
    RF_TRY(is_auto(o) ? open_any_backend(en, o, e) : open_backend(en, o, e));
    rf_log_write(RF_LOG_INFO, "the model runs on %s", en->backend_text);
    return en->model->arch->encoder ? RF_OK : open_generation(en, o, e);
}

int rf_engine_open(rf_engine **out, const rf_engine_opts *o, rf_text *why) {
    rf_error e = {0};
    *out = NULL;
    if (!o->model_path) return give(rf_fail(&e, RF_EARG, "model_path is missing"), &e, why);
    rf_engine *en = rf_alloc(1, sizeof *en);
    if (!en) return give(rf_fail_nomem(&e, sizeof *en), &e, why);
    pthread_mutex_init(&en->lock, NULL);
    pthread_cond_init(&en->work, NULL);
    pthread_mutex_init(&en->index_lock, NULL);
    en->next_id = 1;
    en->pace.target_us = 1000 * (o->itl_target_ms < MAX_ITL_MS ? o->itl_target_ms : MAX_ITL_MS);
    rf_status s = rf_gguf_open(&en->file, o->model_path, &e);
    if (s == RF_OK) s = rf_tokenizer_from_gguf(&en->tokenizer, en->file, &e);
    if (s == RF_OK && !o->vocab_only) s = open_weights(en, o, &e);
    if (s == RF_OK) s = read_facts(en, &e);
    if (s == RF_OK)
        *out = en;
    else
        rf_engine_close(en);
    return give(s, &e, why);
}

void rf_engine_settle(rf_engine *en) {
    if (en->exec && en->ops->settle) en->ops->settle(en->exec);
}

void rf_engine_close(rf_engine *en) {
    if (!en) return;
    for (rf_request *r = en->first, *next; r; r = next) {
        next = r->next;
        if (en->kv) rf_kv_release(en->kv, &r->kv);
        if (en->states) rf_states_give(en->states, &r->st);
        rf_swap_drop(&en->swap, &r->swapped);
        rf_spec_forget(en->spec, r);
        rf_request_free(r);
    }
    rf_events_free(&en->events);
    rf_spec_free(en->spec);
    rf_fair_free(&en->fair);
    rf_embedder_free(en->embedder);
    if (en->exec) en->ops->exec_free(en->exec);
    if (en->backend) en->ops->close(en->backend);
    rf_plan_free(en->plan);
    rf_kv_free(en->kv);
    rf_states_free(en->states);
    rf_token_index_free(en->token_index);
    rf_tokenizer_free(en->tokenizer);
    if (en->model)
        rf_model_close(en->model);
    else
        rf_gguf_close(en->file);
    void *const memory[] = {en->a.token,    en->a.pos,     en->a.seq_start, en->a.kv_len,
                            en->a.n_prefix, en->a.state,   en->a.table,     en->a.out_row,
                            en->a.sched,    en->a.running, en->a.output,    en->a.behind,
                            en->a.by_best,  en->a.noise,   en->a.choice};
    for (size_t i = 0; i < RF_COUNT(memory); i++)
        rf_free(memory[i]);
    rf_ids_free(&en->end_tokens);
    rf_prompter_close(&en->prompter);
    rf_buf_free(&en->name);
    rf_buf_free(&en->arch);
    rf_buf_free(&en->chat_template);
    pthread_cond_destroy(&en->work);
    pthread_mutex_destroy(&en->index_lock);
    pthread_mutex_destroy(&en->lock);
    rf_free(en);
}

void rf_engine_get_info(const rf_engine *en, rf_engine_info *out) {
    *out = (rf_engine_info){
        .model_name = en->name.len ? en->name.p : "",
        .architecture = en->arch.len ? en->arch.p : "",
        .backend = en->backend_text,
        .chat_template = en->chat_template.len ? en->chat_template.p : NULL,
        .n_vocab = rf_tokenizer_n_vocab(en->tokenizer),
    };
    const rf_model *m = en->model;
    if (!m) return;
    out->n_layers = m->n_layers;
    out->n_embd = m->n_embd;
    out->n_heads = m->n_heads;
    out->n_kv_heads = m->n_kv_heads;
    out->head_dim = m->head_dim;
    out->n_ff = m->n_ff;
    out->n_vocab = m->n_vocab;
    out->n_ctx = en->n_ctx;
    out->n_ctx_train = m->n_ctx_train;
    out->batch_tokens = en->limits.max_tokens;
    out->n_params = m->n_params;
    out->weight_bytes = m->weight_bytes;
    out->is_encoder = m->arch->encoder;
    out->pooling = (rf_embed_pooling)rf_embed_default(m);
    if (!en->backend) return;
    out->exec_bytes = en->exec ? en->ops->exec_bytes(en->exec) : rf_embedder_bytes(en->embedder);
    out->exec_bytes += rf_spec_bytes(en->spec);
    out->kv_blocks = en->exec ? en->limits.n_kv_blocks : 0;
    out->kv_blocks_free = atomic_load(&en->kv_free);
}

/* ---- memory ---- */

/* The batch of a GPU, which need not be there; nobody looks for it where the batch was asked for. */
static void set_gpu_batch(rf_engine *t, const rf_engine_opts *o, int device) {
    rf_gpu_found g;
    if (!o->batch_tokens && rf_gpu_probe((size_t)device, &g, NULL) == RF_OK)
        set_batch(t, o, g.usual_batch);
}

static rf_status measure(rf_engine *t, const rf_engine_opts *o, rf_need *need, rf_error *e) {
    rf_backend_opts bo;
    RF_TRY(choose_backend(t, o, e));
    RF_TRY(choose_backend_opts(&bo, o, e));
    RF_TRY(choose_limits(t, o, e));
    if (t->ops == &rf_gpu_ops) set_gpu_batch(t, o, bo.device);
    if (!t->ops->measure)
        return rf_fail(e, RF_EUNSUPPORTED, "backend '%s' cannot be measured", t->ops->name);
    const rf_plan_opts po = {.keep_values = o->keep_activations, .n_ctx = t->n_ctx};
    RF_TRY(rf_plan_build(&t->plan, t->model, &po, e));
    rf_status s = t->ops->measure(need, t->plan, &t->limits, &bo, e);
    rf_plan_free(t->plan);
    return s;
}

/* An engine of which only the choices are made; rf_free it. */
static rf_status create_meter(rf_engine **out, const rf_engine *en, rf_error *e) {
    *out = NULL;
    if (!en->model) return rf_fail(e, RF_EARG, "the engine was opened for its vocabulary only");
    if (en->model->arch->encoder)
        return rf_fail(e, RF_EUNSUPPORTED, "%s models are encoders, which are not measured",
                       en->model->arch->name);
    *out = rf_alloc(1, sizeof **out);
    if (!*out) return rf_fail_nomem(e, sizeof **out);
    (*out)->model = en->model;
    return RF_OK;
}

int rf_engine_measure(const rf_engine *en, const rf_engine_opts *o, rf_memory_need *out,
                      rf_text *why) {
    rf_error e = {0};
    rf_need n = {0};
    rf_engine *t;
    *out = (rf_memory_need){0};
    rf_status s = create_meter(&t, en, &e);
    if (s != RF_OK) return give(s, &e, why);
    s = measure(t, o, &n, &e);
    *out = (rf_memory_need){.weights = n.weights,
                            .kv = n.kv,
                            .activations = n.values,
                            .other = n.other,
                            .total = n.weights + n.kv + n.values + n.other,
                            .host = n.host,
                            .kv_block = t->limits.n_kv_blocks ? n.kv / t->limits.n_kv_blocks : 0,
                            .n_ctx = t->n_ctx,
                            .max_seqs = t->limits.max_seqs,
                            .batch_tokens = t->limits.max_tokens,
                            .n_kv_blocks = t->limits.n_kv_blocks};
    rf_free(t);
    return give(s, &e, why);
}

static void give_stages(const rf_split *from, rf_stage *out, size_t cap) {
    for (uint32_t i = 0; i < from->n && i < cap; i++) {
        const rf_split_stage *s = &from->stage[i];
        const rf_need *n = &s->need;
        bool on_gpu = s->device != RF_CPU_STAGE;
        out[i] = (rf_stage){.on_gpu = on_gpu,
                            .device = on_gpu ? (uint32_t)s->device : 0,
                            .first_layer = s->first_layer,
                            .n_layers = s->n_layers,
                            .weights = n->weights,
                            .kv = n->kv,
                            .activations = n->values,
                            .other = n->other + s->spare,
                            .total = n->weights + n->kv + n->values + n->other + s->spare,
                            .host = n->host};
    }
}

size_t rf_engine_stages(const rf_engine *en, rf_stage *out, size_t cap) {
    give_stages(&en->split, out, cap);
    return en->split.n;
}

static bool has_cpu(const rf_split *s) {
    bool has = false;
    for (uint32_t i = 0; i < s->n; i++)
        has = has || s->stage[i].device == RF_CPU_STAGE;
    return has;
}

/* With the batch that opening would choose: compile_plan, open_any_backend. */
static rf_status place(rf_engine *t, const rf_engine_opts *o, const uint64_t *room, rf_error *e) {
    uint64_t found[RF_MAX_DEVICES];
    rf_backend_opts bo;
    RF_TRY(choose_backend(t, o, e));
    RF_TRY(choose_backend_opts(&bo, o, e));
    if (t->ops != &rf_gpu_ops && t->ops != &rf_split_ops)
        return rf_fail(e, RF_EUNSUPPORTED, "backend '%s' has no GPUs to place layers on",
                       t->ops->name);
    RF_TRY(choose_limits(t, o, e));
    for (uint32_t i = 0; !room && i < bo.n_devices; i++) {
        rf_gpu_found g;
        RF_TRY(rf_gpu_probe((size_t)bo.devices[i], &g, e));
        found[i] = g.mem_free;
    }
    if (!room) room = found;
    const rf_plan_opts po = {.keep_values = o->keep_activations, .n_ctx = t->n_ctx};
    RF_TRY(rf_plan_build(&t->plan, t->model, &po, e));
    if (o->gpu_layers == 0) set_gpu_batch(t, o, bo.device);
    rf_status s = rf_split_place(&t->split, t->plan, &t->limits, &bo, room, e);
    bool is_short = s == RF_ENOMEM || (s == RF_OK && bo.n_devices == 1 && has_cpu(&t->split));
    if (is_short && shorten_batch(t, o)) {
        *e = (rf_error){.status = RF_OK};
        s = rf_split_place(&t->split, t->plan, &t->limits, &bo, room, e);
    }
    rf_plan_free(t->plan);
    return s;
}

int rf_engine_place(const rf_engine *en, const rf_engine_opts *o, const uint64_t *room,
                    rf_stage *out, size_t cap, size_t *n, rf_text *why) {
    rf_error e = {0};
    rf_engine *t;
    *n = 0;
    rf_status s = create_meter(&t, en, &e);
    if (s != RF_OK) return give(s, &e, why);
    s = place(t, o, room, &e);
    if (s == RF_OK) {
        *n = t->split.n;
        give_stages(&t->split, out, cap);
    }
    rf_free(t);
    return give(s, &e, why);
}

/* ---- text and tokens ---- */

static rf_status give_ids(rf_ids *ids, int32_t *out, size_t cap, size_t *n) {
    *n = ids->len;
    if (out && ids->len) memcpy(out, ids->p, (ids->len < cap ? ids->len : cap) * sizeof *out);
    rf_status s = ids->failed ? RF_ENOMEM : RF_OK;
    rf_ids_free(ids);
    return s;
}

int rf_engine_tokenize(const rf_engine *en, const char *text, size_t len, bool add_special,
                       bool parse_special, int32_t *out, size_t cap, size_t *n, rf_text *why) {
    rf_error e = {0};
    rf_ids ids = {0};
    const rf_tokenize_opts o = {.add_special = add_special, .parse_special = parse_special};
    rf_status s = rf_tokenize(en->tokenizer, (rf_str){text, len}, o, &ids, &e);
    rf_status kept = give_ids(&ids, out, cap, n);
    return give(s != RF_OK ? s : kept, &e, why);
}

int rf_engine_detokenize(const rf_engine *en, const int32_t *tokens, size_t n, bool with_special,
                         char *out, size_t cap, size_t *len, rf_text *why) {
    rf_error e = {0};
    rf_buf text = {0};
    rf_status s = rf_detokenize(en->tokenizer, tokens, n, with_special, &text, &e);
    *len = text.len;
    if (out && text.len) memcpy(out, text.p, text.len < cap ? text.len : cap);
    rf_buf_free(&text);
    return give(s, &e, why);
}

static rf_status can_generate(const rf_engine *en, rf_error *e) {
    if (!en->model) return rf_fail(e, RF_EARG, "the engine was opened for its vocabulary only");
    if (!en->backend) return rf_fail(e, RF_EARG, "the engine was opened to measure only");
    if (!en->exec)
        return rf_fail(e, RF_EUNSUPPORTED,
                       "%s models are encoders: they turn a text into a vector and cannot continue "
                       "it; use them for embeddings",
                       en->model->arch->name);
    return RF_OK;
}

int rf_engine_chat_tokens(const rf_engine *en, const char *format, const rf_message *messages,
                          size_t n_messages, int32_t *out, size_t cap, size_t *n, rf_text *why) {
    rf_error e = {0};
    rf_ids ids = {0};
    rf_chat_message *m = rf_alloc(n_messages, sizeof *m);
    rf_status s = m ? RF_OK : rf_fail_nomem(&e, n_messages);
    if (s == RF_OK && en->model) s = can_generate(en, &e);
    for (size_t i = 0; s == RF_OK && i < n_messages; i++)
        m[i] = (rf_chat_message){rf_str_of(messages[i].role), rf_str_of(messages[i].content)};
    if (s == RF_OK) s = rf_prompter_tokens(&en->prompter, format, m, n_messages, &ids, &e);
    rf_free(m);
    rf_status kept = give_ids(&ids, out, cap, n);
    return give(s != RF_OK ? s : kept, &e, why);
}

static rf_status parse_part(rf_json **out, const char *text, size_t len, const char *name,
                            rf_error *e) {
    rf_error own = {0};
    *out = NULL;
    if (!text) return RF_OK;
    rf_status s = rf_json_parse(out, (rf_str){text, len}, &own);
    return s == RF_OK ? s : rf_fail(e, s, "%s: %s", name, own.text);
}

int rf_engine_conversation_tokens(const rf_engine *en, const rf_conversation *c, int32_t *out,
                                  size_t cap, size_t *n, rf_text *why) {
    rf_error e = {0};
    rf_ids ids = {0};
    rf_json *part[4] = {0};
    const char *const text[] = {c->messages, c->tools, c->documents, c->vars};
    const size_t len[] = {c->messages_len, c->tools_len, c->documents_len, c->vars_len};
    static const char *const name[] = {"messages", "tools", "documents", "vars"};
    rf_status s = RF_OK;
    for (size_t i = 0; s == RF_OK && i < RF_COUNT(part); i++)
        s = parse_part(&part[i], text[i], len[i], name[i], &e);
    const rf_chat_request r = {.messages = part[0],
                               .tools = part[1],
                               .documents = part[2],
                               .kwargs = part[3],
                               .add_generation_prompt = !c->is_open};
    if (s == RF_OK) s = rf_prompter_request_tokens(&en->prompter, c->format, &r, &ids, &e);
    for (size_t i = 0; i < RF_COUNT(part); i++)
        rf_json_free(part[i]);
    rf_status kept = give_ids(&ids, out, cap, n);
    return give(s != RF_OK ? s : kept, &e, why);
}

bool rf_engine_is_end(const rf_engine *en, int32_t token) {
    return rf_token_is_end(en->tokenizer, token);
}

int rf_engine_token_bytes(const rf_engine *en, int32_t token, char *out, size_t cap, size_t *len,
                          rf_text *why) {
    rf_error e = {0};
    rf_buf text = {0};
    rf_status s = rf_token_bytes(en->tokenizer, token, true, &text);
    if (s != RF_OK) rf_fail(&e, s, "token %d is not in the vocabulary", token);
    *len = text.len;
    if (out && text.len) memcpy(out, text.p, text.len < cap ? text.len : cap);
    rf_buf_free(&text);
    return give(s, &e, why);
}

/* ---- grammars ---- */

_Static_assert((int)RF_GRAMMAR_GBNF == (int)RF_LANGUAGE_GBNF &&
                   (int)RF_GRAMMAR_JSON_SCHEMA == (int)RF_LANGUAGE_SCHEMA &&
                   (int)RF_GRAMMAR_REGEX == (int)RF_LANGUAGE_REGEX &&
                   (int)RF_GRAMMAR_CHOICE == (int)RF_LANGUAGE_CHOICE,
               "public and internal languages are the same numbers");

int rf_grammar_open(rf_engine *en, rf_grammar_kind kind, const char *text, size_t len,
                    rf_grammar **out, rf_text *why) {
    rf_error e = {0};
    rf_status s = RF_OK;
    *out = NULL;
    if ((unsigned)kind > RF_GRAMMAR_CHOICE)
        return give(rf_fail(&e, RF_EARG, "there is no kind %d of grammars", (int)kind), &e, why);
    pthread_mutex_lock(&en->index_lock);
    if (!en->token_index) s = rf_token_index_create(&en->token_index, en->tokenizer, &e);
    pthread_mutex_unlock(&en->index_lock);
    if (s == RF_OK)
        s = rf_grammar_compile(out, (rf_language)kind, (rf_str){text, len}, en->token_index, &e);
    return give(s, &e, why);
}

void rf_grammar_close(rf_grammar *g) { rf_grammar_unref(g); }

/* ---- requests ---- */

/* All of a prompt but its last token, which begins the answer (GLM's <sop>), sees each other; so its
 * keys depend on all of it, and nobody else can use them. */
static rf_status give_prefix(const rf_engine *en, rf_request *r, rf_error *e) {
    if (!en->model->prefix) return RF_OK;
    r->n_prefix = r->n_prompt - 1;
    if (r->n_prefix <= en->limits.max_tokens) return RF_OK;
    return rf_fail(
        e, RF_EFULL,
        "a prompt of %u tokens, all of which see each other, needs one step for all but the "
        "last; a step has %u rows; raise the rows of a batch",
        r->n_prompt, en->limits.max_tokens);
}

static rf_status create_request(rf_engine *en, const rf_request_opts *o, rf_request **out,
                                rf_error *e) {
    *out = NULL;
    RF_TRY(can_generate(en, e));
    if (o->grammar && rf_grammar_index(o->grammar) != en->token_index)
        return rf_fail(e, RF_EARG, "the grammar was opened for another engine");
    RF_TRY(rf_request_create(out, o, en->tokenizer, en->n_ctx, e));
    (*out)->events = &en->events;
    rf_status s = give_prefix(en, *out, e);
    if (s == RF_OK) return RF_OK;
    rf_request_free(*out);
    *out = NULL;
    return s;
}

int rf_engine_check(rf_engine *en, const rf_request_opts *o, rf_text *why) {
    rf_error e = {0};
    rf_request *r;
    rf_status s = create_request(en, o, &r, &e);
    rf_request_free(r);
    return give(s, &e, why);
}

int rf_engine_submit(rf_engine *en, const rf_request_opts *o, uint64_t *id, rf_text *why) {
    rf_error e = {0};
    rf_request *r;
    rf_status s = create_request(en, o, &r, &e);
    if (s != RF_OK) return give(s, &e, why);
    pthread_mutex_lock(&en->lock);
    s = rf_fair_join(&en->fair, o->flow, o->weight ? o->weight : 1, o->priority, &r->ticket);
    if (s != RF_OK) {
        pthread_mutex_unlock(&en->lock);
        rf_request_free(r);
        return give(rf_fail_nomem(&e, en->fair.cap * sizeof *en->fair.flows), &e, why);
    }
    r->id = en->next_id++;
    if (en->model->prefix) r->kv.salt = r->id;
    if (id) *id = r->id;
    rf_request **at = &en->first;
    while (*at)
        at = &(*at)->next;
    *at = r;
    pthread_cond_signal(&en->work);
    pthread_mutex_unlock(&en->lock);
    return give(RF_OK, &e, why);
}

void rf_engine_cancel(rf_engine *en, uint64_t id) {
    pthread_mutex_lock(&en->lock);
    for (rf_request *r = en->first; r; r = r->next)
        if (r->id == id) atomic_store(&r->cancelled, true);
    pthread_mutex_unlock(&en->lock);
}

void rf_engine_wait(rf_engine *en) {
    pthread_mutex_lock(&en->lock);
    while (!en->first && !en->woken)
        pthread_cond_wait(&en->work, &en->lock);
    en->woken = false;
    pthread_mutex_unlock(&en->lock);
}

void rf_engine_wake(rf_engine *en) {
    pthread_mutex_lock(&en->lock);
    en->woken = true;
    pthread_cond_signal(&en->work);
    pthread_mutex_unlock(&en->lock);
}

void rf_engine_get_stats(rf_engine *en, rf_engine_stats *out) {
    *out = (rf_engine_stats){.max_running = en->limits.max_seqs,
                             .kv_blocks = en->limits.n_kv_blocks,
                             .kv_free = atomic_load(&en->kv_free)};
    pthread_mutex_lock(&en->lock);
    for (const rf_request *r = en->first; r; r = r->next) {
        out->n_running += r->running;
        out->n_waiting += !r->running;
    }
    out->kv_cached = en->kv_stats.n_cached;
    out->kv_hits = en->kv_stats.hits;
    out->kv_misses = en->kv_stats.misses;
    out->kv_evictions = en->kv_stats.evictions;
    out->n_preemptions = en->n_preemptions;
    out->n_swapped_out = en->swap_seen.n_out;
    out->n_swapped_in = en->swap_seen.n_in;
    out->swap_used = en->swap_seen.used;
    out->n_drafted = en->n_drafted;
    out->n_accepted = en->n_accepted;
    pthread_mutex_unlock(&en->lock);
}

bool rf_engine_is_running(rf_engine *en, uint64_t id) {
    bool running = false;
    pthread_mutex_lock(&en->lock);
    for (const rf_request *r = en->first; r; r = r->next)
        if (r->id == id) running = r->running;
    pthread_mutex_unlock(&en->lock);
    return running;
}

/* ---- a whole sequence, without sampling ---- */

/* Who looks at what a piece of the sequence gave: one of the two functions is set. */
typedef struct viewer {
    rf_logits_fn logits;
    rf_activation_fn activation;
    void *user;
    rf_lens *lens; /* for activation */
} viewer;

static rf_status evaluate(rf_engine *en, rf_kv_seq *seq, uint32_t slot, const int32_t *tokens,
                          size_t n, const viewer *v, rf_error *e) {
    rf_engine_arrays *a = &en->a;
    rf_status s = rf_kv_reserve(en->kv, seq, (uint32_t)n);
    if (s != RF_OK) return rf_fail(e, s, "no room in the KV cache for %zu tokens", n);
    memcpy(a->table, seq->blocks, seq->n_blocks * sizeof *a->table);
    a->state[0] = slot;
    for (size_t first = 0; first < n;) {
        rf_batch b = rf_engine_empty_batch(en);
        b.n_seqs = 1;
        while (b.n_tokens < en->limits.max_outputs && first + b.n_tokens < n) {
            a->token[b.n_tokens] = tokens[first + b.n_tokens];
            a->pos[b.n_tokens] = (uint32_t)first + b.n_tokens;
            a->out_row[b.n_tokens] = b.n_tokens;
            b.n_tokens++;
        }
        b.n_outputs = b.n_tokens;
        a->seq_start[0] = 0;
        a->seq_start[1] = b.n_tokens;
        a->kv_len[0] = (uint32_t)first + b.n_tokens;
        const float *logits;
        RF_TRY(en->ops->run(en->exec, &b, e));
        s = en->ops->wait(en->exec, &logits);
        if (s != RF_OK) return rf_fail(e, s, "the backend failed: %s", rf_status_name(s));
        if (v->activation) {
            RF_TRY(rf_lens_show(v->lens, b.n_tokens, v->activation, v->user, e));
        } else if (!v->logits(v->user, first, b.n_tokens, logits)) {
            return rf_fail(e, RF_ECANCELLED, "stopped");
        }
        first += b.n_tokens;
    }
    return RF_OK;
}

static bool is_busy(rf_engine *en) {
    pthread_mutex_lock(&en->lock);
    bool busy = en->stepping;
    for (const rf_request *r = en->first; r; r = r->next)
        busy = busy || r->running;
    pthread_mutex_unlock(&en->lock);
    return busy;
}

static int view(rf_engine *en, const int32_t *tokens, size_t n, const viewer *v, rf_text *why) {
    rf_error e = {0};
    rf_kv_seq seq = {0};
    rf_status s = can_generate(en, &e);
    if (s != RF_OK) return give(s, &e, why);
    if (is_busy(en))
        return give(rf_fail(&e, RF_EARG, "requests are running; their end must come first"), &e,
                    why);
    if (n > en->n_ctx)
        return give(rf_fail(&e, RF_EFULL,
                            "%zu tokens do not fit the context of %u; raise the context length", n,
                            en->n_ctx),
                    &e, why);
    if (n == 0) return give(rf_fail(&e, RF_EARG, "there are no tokens to evaluate"), &e, why);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= en->model->n_vocab)
            return give(rf_fail(&e, RF_EARG, "token %zu is %d, not below the vocabulary's %u", i,
                                tokens[i], en->model->n_vocab),
                        &e, why);
    rf_stateful st = {.slot = RF_NO_STATE};
    if (en->states) rf_states_take(en->states, &st);
    s = evaluate(en, &seq, st.slot, tokens, n, v, &e);
    if (en->states) rf_states_give(en->states, &st);
    rf_kv_release(en->kv, &seq);
    if (s == RF_EDEVICE) (void)rf_engine_revive(en, &e); /* for the next call */
    return give(s, &e, why);
}

int rf_engine_logits(rf_engine *en, const int32_t *tokens, size_t n, rf_logits_fn sink, void *user,
                     rf_text *why) {
    return view(en, tokens, n, &(viewer){.logits = sink, .user = user}, why);
}

int rf_engine_activations(rf_engine *en, const int32_t *tokens, size_t n, rf_activation_fn sink,
                          void *user, rf_text *why) {
    rf_error e = {0};
    if (can_generate(en, &e) != RF_OK) return give(e.status, &e, why);
    if (!en->plan->opts.keep_values)
        return give(rf_fail(&e, RF_EARG, "the engine was opened without keep_activations"), &e,
                    why);
    viewer v = {.activation = sink, .user = user};
    if (rf_lens_open(&v.lens, en->ops, en->exec, en->plan, en->limits.max_tokens, &e) != RF_OK)
        return give(e.status, &e, why);
    int status = view(en, tokens, n, &v, why);
    rf_lens_free(v.lens);
    return status;
}

/* ---- saved states ---- */

static rf_status make_home(rf_engine *en, rf_state_home *out, rf_error *e) {
    RF_TRY(can_generate(en, e));
    if (en->stepping) return rf_fail(e, RF_EARG, "no state is saved or restored inside a callback");
    if (en->model->prefix)
        return rf_fail(
            e, RF_EUNSUPPORTED,
            "all of a prompt sees itself in this model, so nothing computed for one prompt "
            "serves another, and no state is saved");
    if (!en->state_model[0] && rf_state_model(en->file, en->plan, en->state_model) != RF_OK)
        return rf_fail_nomem(e, sizeof en->state_model);
    *out = (rf_state_home){.ops = en->ops,
                           .exec = en->exec,
                           .kv = en->kv,
                           .states = en->states,
                           .state_floats = en->plan->state_floats,
                           .n_vocab = en->model->n_vocab,
                           .k_type = en->limits.k_type,
                           .v_type = en->limits.v_type};
    memcpy(out->model, en->state_model, sizeof out->model);
    return RF_OK;
}

int rf_engine_state_save(rf_engine *en, const char *path, const int32_t *tokens, size_t n,
                         uint64_t prefix_salt, size_t *n_saved, rf_text *why) {
    rf_error e = {0};
    rf_state_home h;
    uint32_t saved = 0;
    rf_status s = make_home(en, &h, &e);
    if (s == RF_OK && n > RF_MAX_CONTEXT)
        s = rf_fail(&e, RF_EARG, "%zu tokens are over the limit of %u", n, RF_MAX_CONTEXT);
    if (s == RF_OK) s = rf_state_save(&h, path, prefix_salt, tokens, (uint32_t)n, &saved, &e);
    if (n_saved) *n_saved = saved;
    return give(s, &e, why);
}

int rf_engine_state_restore(rf_engine *en, const char *path, uint64_t prefix_salt, int32_t *out,
                            size_t cap, size_t *n, size_t *n_restored, rf_text *why) {
    rf_error e = {0};
    rf_state_home h;
    rf_ids ids = {0};
    uint32_t restored = 0;
    rf_status s = make_home(en, &h, &e);
    if (s == RF_OK) {
        s = rf_state_restore(&h, path, prefix_salt, &ids, &restored, &e);
        rf_engine_note_free(en);
    }
    if (n_restored) *n_restored = restored;
    rf_status kept = give_ids(&ids, out, cap, n);
    return give(s != RF_OK ? s : kept, &e, why);
}

/* ---- embeddings ---- */

_Static_assert((int)RF_POOLING_MEAN == (int)RF_POOL_MEAN &&
                   (int)RF_POOLING_CLS == (int)RF_POOL_CLS &&
                   (int)RF_POOLING_LAST == (int)RF_POOL_LAST &&
                   (int)RF_POOLING_RANK == (int)RF_POOL_RANK,
               "public and internal kinds of pooling are the same numbers");

static rf_pooling pooling_of(const rf_engine *en, rf_embed_pooling p) {
    return p == RF_POOLING_DEFAULT ? rf_embed_default(en->model) : (rf_pooling)p;
}

size_t rf_engine_embed_size(const rf_engine *en, rf_embed_pooling pooling) {
    if (!en->model || (unsigned)pooling > RF_POOLING_RANK) return 0;
    return rf_embed_size(en->model, pooling_of(en, pooling));
}

static rf_status check_embed(const rf_engine *en, rf_embed_pooling pooling, size_t n, size_t cap,
                             rf_error *e) {
    if (!en->model) return rf_fail(e, RF_EARG, "the engine was opened for its vocabulary only");
    if (!en->backend) return rf_fail(e, RF_EARG, "the engine was opened to measure only");
    if (en->stepping) return rf_fail(e, RF_EARG, "no embedding from inside a callback");
    if ((unsigned)pooling > RF_POOLING_RANK)
        return rf_fail(e, RF_EARG, "pooling is %d, expected 0 to %d", (int)pooling,
                       RF_POOLING_RANK);
    size_t size = rf_engine_embed_size(en, pooling), all;
    if (size == 0)
        return rf_fail(e, RF_EUNSUPPORTED,
                       "the model has no classification head to score with; use a reranker, or "
                       "another pooling");
    if (!rf_mul_ok(n, size, &all) || cap < all)
        return rf_fail(e, RF_EARG, "%zu vectors of %zu floats do not fit the room for %zu", n, size,
                       cap);
    return RF_OK;
}

int rf_engine_embed_batch(rf_engine *en, const rf_embed_input *inputs, size_t n,
                          const rf_embed_opts *o, float *out, size_t cap, rf_text *why) {
    static const rf_embed_opts defaults = {0};
    rf_error e = {0};
    if (!o) o = &defaults;
    rf_status s = check_embed(en, o->pooling, n, cap, &e);
    if (s == RF_OK) s = open_embedder(en, &e);
    if (s == RF_OK)
        s = rf_embedder_run(en->embedder, inputs, n, pooling_of(en, o->pooling), !o->raw, out, &e);
    if (s == RF_EDEVICE) {
        rf_error fault = {0};
        if (rf_engine_revive(en, &fault)) {
            e = (rf_error){0};
            s = rf_embedder_run(en->embedder, inputs, n, pooling_of(en, o->pooling), !o->raw, out,
                                &e);
        }
    }
    return give(s, &e, why);
}

int rf_engine_embed(rf_engine *en, const int32_t *tokens, size_t n_tokens, const rf_embed_opts *o,
                    float *out, size_t cap, rf_text *why) {
    const rf_embed_input input = {tokens, n_tokens};
    return rf_engine_embed_batch(en, &input, 1, o, out, cap, why);
}
