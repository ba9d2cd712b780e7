/* run.c - launches: blocks shared by a few host threads; in a block, the waves run one after another
 * from barrier to barrier.  Registers and LDS start out as rubbish in every block. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "gpuemu/inst.h"

enum {
    RUBBISH = 0xee,
    SPARE_ROWS = 16,        /* the longest access behind a register */
    STEP_LIMIT = 400000000, /* wave instructions between two barriers: nothing of ours needs more */
    EPOCH_LIMIT = 1 << 23,
    MAX_THREADS = 16,
    BLOCK_THREADS = 1024,
};

/* What the host threads of one launch share. */
typedef struct job {
    const rf_emu_kernel *kernel;
    const rf_emu_launch *launch;
    uint32_t wave_size, n_waves, entry, lds_bytes;
    uint64_t n_blocks;
    atomic_uint_fast64_t next_block;
    atomic_bool stop;
    pthread_mutex_t lock; /* of the two below */
    rf_error *error;
    rf_emu_stats stats;
} job;

/* What one host thread runs blocks with. */
typedef struct worker {
    job *j;
    rf_emu_block block;
    rf_emu_wave *waves;  /* [n_waves] */
    uint32_t *registers; /* [n_waves][rows][RF_EMU_ROW] */
    size_t rows;
    rf_error error;
} worker;

bool rf_emu_fault(rf_emu_wave *w, const rf_emu_inst *i, const char *fmt, ...) {
    const rf_emu_block *b = w->block;
    char why[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    rf_fail(b->error, RF_EDEVICE, "%s, block (%u,%u,%u), wave %u: %s: %s (%#x)", b->kernel->name,
            b->at[0], b->at[1], b->at[2], w->id, why, rf_emu_inst_text(b->kernel->module, i),
            i->address);
    return false;
}

/* ---- the state in which a wave starts: chapter "kernel descriptor" of LLVM's AMDGPU guide ---- */

static void start_scalars(rf_emu_wave *w, const job *j, const uint32_t at[3]) {
    const rf_emu_kernel *k = j->kernel;
    static const uint32_t words[] = {4, 2, 2, 2, 2, 2, 1}; /* per bit of properties */
    uint32_t s = 0;
    for (uint32_t bit = 0; bit < RF_COUNT(words); bit++) {
        if (!(k->properties >> bit & 1)) continue;
        if (bit == 3) { /* the arguments' address */
            uint64_t p = (uint64_t)(uintptr_t)j->launch->kernarg;
            w->s[s] = (uint32_t)p;
            w->s[s + 1] = (uint32_t)(p >> 32);
        }
        s += words[bit];
    }
    uint32_t n = k->preload & 127, from = k->preload >> 7;
    if (n && 4 * (from + n) <= k->kernarg_bytes && s + n < RF_EMU_VCC)
        memcpy(&w->s[s], (const uint32_t *)j->launch->kernarg + from, 4 * n);
    if (k->module->gfx >= 12) {
        w->s[RF_EMU_TTMP + 9] = at[0];
        w->s[RF_EMU_TTMP + 7] = (at[1] & 0xffff) | at[2] << 16;
        return;
    }
    s = k->rsrc2 >> 1 & 31;
    for (uint32_t d = 0; d < 3; d++)
        if (k->rsrc2 >> (7 + d) & 1) w->s[s++] = at[d];
}

static void start_wave(worker *x, uint32_t id) {
    const job *j = x->j;
    rf_emu_wave *w = &x->waves[id];
    const uint32_t *size = j->launch->block;
    uint32_t n = j->wave_size, threads = size[0] * size[1] * size[2], active = threads - id * n;
    const rf_emu_stats stats = w->stats;
    const uint64_t lane_ops = w->lane_ops;
    memset(w, 0, sizeof *w);
    memset(w->s, RUBBISH, RF_EMU_VCC * sizeof *w->s);
    *w = (rf_emu_wave){.block = &x->block,
                       .n = n,
                       .id = id,
                       .pc = j->entry,
                       .lane_ops = lane_ops,
                       .stats = stats,
                       .v = x->registers + id * x->rows * RF_EMU_ROW};
    memset(w->s, RUBBISH, RF_EMU_VCC * sizeof *w->s);
    if (active > n) active = n;
    rf_emu_set_mask(w, RF_EMU_EXEC, active == 64 ? ~0ull : (1ull << active) - 1);
    start_scalars(w, j, x->block.at);
    for (uint32_t l = 0; l < active; l++) {
        uint32_t t = id * n + l, tx = t % size[0], ty = t / size[0] % size[1];
        uint32_t tz = t / (size[0] * size[1]), ids = j->kernel->rsrc2 >> 11 & 3;
        if (j->kernel->module->packed_ids) {
            w->v[l] = tx | ty << 10 | tz << 20;
            continue;
        }
        w->v[l] = tx;
        if (ids >= 1) w->v[RF_EMU_ROW + l] = ty;
        if (ids >= 2) w->v[2 * RF_EMU_ROW + l] = tz;
    }
}

static bool run_wave(worker *x, rf_emu_wave *w) {
    const rf_emu_inst *code = x->j->kernel->module->code;
    uint32_t n_code = (uint32_t)x->j->kernel->module->n_code;
    for (uint32_t steps = 0; !w->done && !w->waiting; steps++) {
        if (w->pc >= n_code)
            return rf_emu_fault(w, &code[n_code - 1], "runs past the end of the code");
        const rf_emu_inst *i = &code[w->pc++];
        if (steps == STEP_LIMIT) return rf_emu_fault(w, i, "runs too long without a barrier");
        w->stats.of[i->class]++;
        if (!i->run(w, i)) return false;
    }
    return true;
}

static bool run_block(worker *x, uint64_t number) {
    const job *j = x->j;
    const uint32_t *grid = j->launch->grid;
    rf_emu_block *b = &x->block;
    b->at[0] = (uint32_t)(number % grid[0]);
    b->at[1] = (uint32_t)(number / grid[0] % grid[1]);
    b->at[2] = (uint32_t)(number / grid[0] / grid[1]);
    if (b->epoch > EPOCH_LIMIT) {
        memset(b->written, 0, j->lds_bytes * sizeof *b->written);
        memset(b->read, 0, j->lds_bytes * sizeof *b->read);
        b->epoch = 0;
    }
    b->first_epoch = ++b->epoch;
    memset(b->lds, RUBBISH, j->lds_bytes);
    memset(x->registers, RUBBISH, j->n_waves * x->rows * RF_EMU_ROW * sizeof *x->registers);
    for (uint32_t k = 0; k < j->n_waves; k++)
        start_wave(x, k);
    for (;;) {
        uint32_t waiting = 0;
        for (uint32_t k = 0; k < j->n_waves; k++) {
            if (!run_wave(x, &x->waves[k])) return false;
            waiting += x->waves[k].waiting;
        }
        if (waiting == 0) return true;
        b->epoch++;
        for (uint32_t k = 0; k < j->n_waves; k++)
            x->waves[k].waiting = false;
    }
}

/* ---- host threads ---- */

static void close_worker(worker *x) {
    rf_free(x->waves);
    rf_free(x->registers);
    rf_free(x->block.lds);
    rf_free(x->block.written);
    rf_free(x->block.read);
}

static bool open_worker(worker *x) {
    const job *j = x->j;
    const rf_emu_module *m = j->kernel->module;
    x->rows = m->n_vgpr + m->n_agpr + SPARE_ROWS;
    x->waves = rf_alloc(j->n_waves, sizeof *x->waves);
    x->registers = rf_alloc(j->n_waves * x->rows, RF_EMU_ROW * sizeof *x->registers);
    x->block = (rf_emu_block){.kernel = j->kernel,
                              .launch = j->launch,
                              .error = &x->error,
                              .lds_bytes = j->lds_bytes,
                              .lds = rf_alloc(j->lds_bytes + 16, 1),
                              .written = rf_alloc(j->lds_bytes + 16, 4),
                              .read = rf_alloc(j->lds_bytes + 16, 4)};
    return x->waves && x->registers && x->block.lds && x->block.written && x->block.read;
}

static void *work(void *arg) {
    job *j = arg;
    worker x = {.j = j};
    bool good = open_worker(&x);
    if (!good) rf_fail_nomem(&x.error, j->n_waves * x.rows * RF_EMU_ROW * sizeof *x.registers);
    while (good && !atomic_load(&j->stop)) {
        uint64_t k = atomic_fetch_add(&j->next_block, 1);
        if (k >= j->n_blocks) break;
        good = run_block(&x, k);
    }
    pthread_mutex_lock(&j->lock);
    if (!good) {
        atomic_store(&j->stop, true);
        if (j->error->status == RF_OK) *j->error = x.error;
    }
    for (uint32_t k = 0; x.waves && k < j->n_waves; k++) {
        for (uint32_t c = 0; c < RF_EMU_CLASSES; c++) {
            j->stats.of[c] += x.waves[k].stats.of[c];
            j->stats.instructions += x.waves[k].stats.of[c];
        }
        j->stats.bytes_loaded += x.waves[k].stats.bytes_loaded;
        j->stats.lane_ops += x.waves[k].lane_ops;
    }
    pthread_mutex_unlock(&j->lock);
    close_worker(&x);
    return NULL;
}

static rf_status check_launch(const rf_emu_kernel *k, const rf_emu_launch *l, rf_error *e) {
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    uint32_t lds_limit = strcmp(k->module->arch, "gfx950") ? 65536 : 163840;
    if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0 || threads == 0 ||
        threads > BLOCK_THREADS || l->block[0] > BLOCK_THREADS || l->block[1] > BLOCK_THREADS)
        return rf_fail(e, RF_EARG, "%s: %u x %u x %u blocks of %llu threads", k->name, l->grid[0],
                       l->grid[1], l->grid[2], (unsigned long long)threads);
    if (k->max_threads && threads > k->max_threads)
        return rf_fail(e, RF_EARG, "%s: %llu threads a block, but it was compiled for %u", k->name,
                       (unsigned long long)threads, k->max_threads);
    if ((uint64_t)k->lds_bytes + l->lds_bytes > lds_limit)
        return rf_fail(e, RF_EARG, "%s: %llu bytes of LDS, but there are %u", k->name,
                       (unsigned long long)k->lds_bytes + l->lds_bytes, lds_limit);
    if (k->scratch_bytes)
        return rf_fail(e, RF_EDEVICE, "%s uses %u bytes of scratch memory", k->name,
                       k->scratch_bytes);
    return RF_OK;
}

rf_status rf_emu_run(const rf_emu_kernel *k, const rf_emu_launch *l, rf_emu_stats *stats,
                     rf_error *e) {
    const rf_emu_module *m = k->module;
    rf_error error = {0};
    RF_TRY(check_launch(k, l, e));
    uint32_t entry = k->entry >= m->text_lo && k->entry < m->text_hi
                         ? m->at_address[(k->entry - m->text_lo) / 4]
                         : UINT32_MAX;
    if (entry >= m->n_code) return rf_fail(e, RF_EFORMAT, "%s has no entry", k->name);
    uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    uint32_t wave = m->gfx >= 10 && (k->properties >> 10 & 1) ? 32 : 64;
    job j = {.kernel = k,
             .launch = l,
             .wave_size = wave,
             .n_waves = (threads + wave - 1) / wave,
             .entry = entry,
             .lds_bytes = k->lds_bytes + l->lds_bytes,
             .error = &error,
             .n_blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2]};
    pthread_mutex_init(&j.lock, NULL);
    pthread_t others[MAX_THREADS];
    uint32_t n_others = 0, wanted = l->n_threads ? l->n_threads - 1 : 0;
    if (wanted > MAX_THREADS) wanted = MAX_THREADS;
    while (n_others < wanted && n_others + 1 < j.n_blocks &&
           !pthread_create(&others[n_others], NULL, work, &j))
        n_others++;
    work(&j);
    for (uint32_t t = 0; t < n_others; t++)
        pthread_join(others[t], NULL);
    pthread_mutex_destroy(&j.lock);
    if (stats) *stats = j.stats;
    if (error.status != RF_OK && e && e->status == RF_OK) *e = error;
    return error.status;
}
