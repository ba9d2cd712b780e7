/* gguf_copy.c - keys, tensors and limits from one GGUF file to the next. */
#include "cli/gguf_copy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE_BYTES = 4 << 20 };

/* "500M", "2G", "1048576": powers of 1000, as sizes are printed. */
static rf_status parse_size(const char *text, uint64_t *out, rf_error *e) {
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    double unit = 1;
    if (end != text && *end) {
        const char *u = strchr(units, *end & ~0x20);
        for (const char *p = units; u && p <= u; p++)
            unit *= 1000;
        end += u != NULL;
    }
    if (end == text || *end || !(v * unit >= 1) || v * unit > 1e18) {
        return rf_fail(e, RF_EARG,
                       "--split-max-size '%.40s': expected a number of bytes, or one with K, M, G "
                       "or T, such as 500M",
                       text);
    }
    *out = (uint64_t)(v * unit);
    return RF_OK;
}

rf_status rf_gguf_copy_split(const rf_cli *c, rf_gguf_writer *w, rf_error *e) {
    const char *size = rf_cli_str(c, RF_F_SPLIT_SIZE);
    uint64_t max_bytes = 0, max_tensors = (uint64_t)rf_cli_int(c, RF_F_SPLIT_TENSORS);
    if (size) RF_TRY(parse_size(size, &max_bytes, e));
    if (max_bytes || max_tensors) rf_gguf_writer_split(w, max_bytes, max_tensors);
    return RF_OK;
}

rf_status rf_gguf_copy_keys(const rf_gguf *from, rf_gguf_writer *to, const char *const *dropped,
                            rf_error *e) {
    for (size_t i = 0; i < rf_gguf_n_kv(from); i++) {
        const rf_gguf_kv *kv = rf_gguf_kv_at(from, i);
        bool is_dropped = rf_str_starts(kv->key, "split.");
        for (const char *const *d = dropped; *d; d++)
            is_dropped = is_dropped || rf_str_is(kv->key, *d);
        if (!is_dropped) RF_TRY(rf_gguf_put_kv(to, kv, e));
    }
    return RF_OK;
}

rf_status rf_gguf_copy_data(const rf_gguf_tensor *t, rf_gguf_writer *w, rf_progress *progress,
                            uint64_t done_bytes, rf_error *e) {
    for (uint64_t done = 0, n; done < t->n_bytes; done += n) {
        n = t->n_bytes - done < PIECE_BYTES ? t->n_bytes - done : PIECE_BYTES;
        RF_TRY(rf_gguf_writer_data(w, t->data + done, (size_t)n, e));
        rf_progress_step(progress, done_bytes + done + n);
        if (rf_cli_interrupted())
            return rf_fail(e, RF_ECANCELLED, "stopped before the end; nothing was written");
    }
    return RF_OK;
}

bool rf_is_same_file(const char *a, const char *b) {
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && S_ISREG(sb.st_mode) &&
           sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}
