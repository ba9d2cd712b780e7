/* fuzz_model.c - any bytes as a model: refused with a reason, or bound, planned, printed and run for
 * one token on the reference backend, which reads every weight. */
#include "backend/backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_one_token(const rf_plan *p) {
    rf_error e = {0};
    rf_backend *b = NULL;
    rf_exec *x = NULL;
    rf_backend_opts o = {0};
    rf_limits l = {
        .max_tokens = 1, .max_seqs = 1, .max_outputs = 1, .n_kv_blocks = 1, .n_states = 1};
    rf_status s = rf_ref_ops.open(&b, &o, &e);
    RF_ASSERT(s == RF_OK);
    s = rf_ref_ops.compile(&x, b, p, &l, &e);
    RF_ASSERT(s == RF_OK);
    const int32_t token = 0;
    const uint32_t zero = 0, seq_start[] = {0, 1}, one = 1;
    float mask[RF_KV_BLOCK] = {0};
    rf_batch batch = {.n_tokens = 1,
                      .n_seqs = 1,
                      .n_outputs = 1,
                      .table_stride = 1,
                      .token = &token,
                      .pos = &zero,
                      .seq_start = seq_start,
                      .kv_len = &one,
                      .table = &zero,
                      .out_row = &zero,
                      .state = &zero,
                      .mask = mask,
                      .mask_stride = RF_KV_BLOCK};
    s = rf_ref_ops.run(x, &batch, &e);
    RF_ASSERT(s == RF_OK);
    rf_ref_ops.exec_free(x);
    rf_ref_ops.close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rf_error e = {0};
    rf_gguf *g = NULL;
    rf_model *m = NULL;
    rf_plan *p = NULL;
    if (rf_gguf_open_memory(&g, data, size, &e) != RF_OK) return 0;
    rf_status s = rf_model_bind(&m, g, &e);
    if (s != RF_OK) {
        RF_ASSERT(e.status == s && e.text[0] && !m);
        rf_gguf_close(g);
        return 0;
    }
    s = rf_plan_build(&p, m, &(rf_plan_opts){.embeddings = m->arch->encoder}, &e);
    RF_ASSERT(s == RF_OK); /* whatever binds can be planned */
    rf_buf text = {0};
    rf_plan_print(p, &text);
    rf_buf_free(&text);
    run_one_token(p);
    rf_plan_free(p);
    rf_model_close(m);
    return 0;
}
