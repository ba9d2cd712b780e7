/* split_place.c - which layers go where: exact, by measuring plans of ranges of layers. */
#include "backend/split.h"

typedef struct search {
    const rf_plan *p;
    const rf_limits *l;
    const rf_backend_opts *o;
    const uint64_t *room; /* [o->n_devices] */
    rf_error *e;
} search;

/* Counts what a stage takes. */
static rf_status measure(const search *s, rf_split_stage *stage) {
    const rf_model *m = s->p->model;
    rf_plan_opts po = s->p->opts;
    rf_limits l = *s->l;
    rf_plan *p;
    const rf_backend_ops *ops = stage->device == RF_CPU_STAGE ? &rf_cpu_ops : &rf_gpu_ops;
    po.first_layer = stage->first_layer;
    po.n_layers = stage->n_layers;
    if (stage->first_layer + stage->n_layers < m->n_layers) l.max_outputs = l.max_tokens;
    RF_TRY(rf_plan_build(&p, m, &po, s->e));
    rf_status status = ops->measure(&stage->need, p, &l, s->o, s->e);
    rf_plan_free(p);
    return status;
}

/* A fiftieth of what is free is the driver's: code, graphs, and what is lost by rounding. */
static rf_status fits(const search *s, uint32_t device, uint32_t first, uint32_t n, bool *out) {
    rf_split_stage stage = {.device = s->o->devices[device], .first_layer = first, .n_layers = n};
    *out = true;
    if (n == 0) return RF_OK;
    RF_TRY(measure(s, &stage));
    const rf_need *need = &stage.need;
    uint64_t room = s->room[device] - s->room[device] / 50;
    *out = need->weights + need->kv + need->values + need->other <= room;
    return RF_OK;
}

/* The last n layers in proportion to the room; *ok: so they fit. */
static rf_status share(const search *s, uint32_t n, uint32_t *count, bool *ok) {
    uint32_t n_devices = s->o->n_devices, given = 0, first = s->p->model->n_layers - n;
    double total = 0, so_far = 0;
    for (uint32_t i = 0; i < n_devices; i++)
        total += (double)s->room[i];
    *ok = total > 0;
    for (uint32_t i = 0; i < n_devices && *ok; i++) {
        so_far += (double)s->room[i];
        uint32_t end = i + 1 == n_devices ? n : (uint32_t)(n * so_far / total + 0.5);
        count[i] = end - given;
        RF_TRY(fits(s, i, first + given, count[i], ok));
        given = end;
    }
    return RF_OK;
}

/* At most n layers, as many as fit, from the last device and layer backwards. */
static rf_status fill(const search *s, uint32_t n, uint32_t *count) {
    uint32_t end = s->p->model->n_layers, least = end - n;
    for (uint32_t i = s->o->n_devices; i-- > 0; end -= count[i]) {
        uint32_t lo = 0, hi = end - least; /* lo fit, more than hi do not */
        while (lo < hi) {
            uint32_t mid = lo + (hi - lo + 1) / 2;
            bool ok;
            RF_TRY(fits(s, i, end - mid, mid, &ok));
            if (ok)
                lo = mid;
            else
                hi = mid - 1;
        }
        count[i] = lo;
    }
    return RF_OK;
}

static rf_status too_little(const search *s, uint32_t n_fit) {
    uint64_t room = 0;
    for (uint32_t i = 0; i < s->o->n_devices; i++)
        room += s->room[i];
    return rf_fail(
        s->e, RF_ENOMEM,
        "of %u layers %u fit into the %llu bytes that are free on %u GPU%s, %u are to be "
        "there: ask for fewer with --gpu-layers, for a shorter context or a smaller "
        "batch, or name more GPUs with --device",
        s->p->model->n_layers, n_fit, (unsigned long long)room, s->o->n_devices,
        s->o->n_devices == 1 ? "" : "s",
        s->o->gpu_layers ? s->o->gpu_layers : s->p->model->n_layers);
}

static rf_status check(const rf_plan *p, rf_error *e) {
    if (p->model->arch->encoder)
        return rf_fail(
            e, RF_EUNSUPPORTED,
            "%s models are encoders, which are not split: they run on one GPU, or on the "
            "CPU with --backend cpu",
            p->model->arch->name);
    if (p->opts.keep_values)
        return rf_fail(e, RF_EUNSUPPORTED,
                       "activations can be looked at on one device only: run on the CPU with "
                       "--backend cpu");
    return RF_OK;
}

/* The stages that the devices' counts make, each measured. */
static rf_status list_stages(const search *s, const uint32_t *count, uint32_t n_on_gpus,
                             rf_split *out) {
    uint32_t first = s->p->model->n_layers - n_on_gpus;
    if (first) out->stage[out->n++] = (rf_split_stage){.device = RF_CPU_STAGE, .n_layers = first};
    for (uint32_t i = 0; i < s->o->n_devices; i++) {
        if (count[i])
            out->stage[out->n++] = (rf_split_stage){
                .device = s->o->devices[i], .first_layer = first, .n_layers = count[i]};
        first += count[i];
    }
    for (uint32_t i = 0; i < out->n; i++)
        RF_TRY(measure(s, &out->stage[i]));
    return RF_OK;
}

rf_status rf_split_place(rf_split *out, const rf_plan *p, const rf_limits *l,
                         const rf_backend_opts *o, const uint64_t *room, rf_error *e) {
    const search s = {p, l, o, room, e};
    uint32_t count[RF_MAX_DEVICES] = {0}, n_layers = p->model->n_layers, sum = 0;
    uint32_t wanted = o->gpu_layers && o->gpu_layers < n_layers ? o->gpu_layers : n_layers;
    bool ok;
    *out = (rf_split){.n = 0};
    RF_TRY(check(p, e));
    RF_TRY(share(&s, wanted, count, &ok));
    if (!ok) RF_TRY(fill(&s, wanted, count));
    for (uint32_t i = 0; i < o->n_devices; i++)
        sum += count[i];
    if (sum == 0 || (sum < wanted && (o->gpu_layers || o->gpu_only))) return too_little(&s, sum);
    return list_stages(&s, count, sum, out);
}
