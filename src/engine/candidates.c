/* candidates.c - lists of tokens in order, and the head of a row that needs no list of all. */
#include "engine/candidates.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "backend/noise.h"
#include "base/fmath.h"

enum { FEW = 256 }; /* candidates that are put in order, or turned into likelihoods, at once */

typedef rf_candidate candidate;

/* ---- order ---- */

int rf_by_logit(const candidate *x, const candidate *y) {
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int compare(const void *a, const void *b) { return rf_by_logit(a, b); }

static void swap(candidate *a, candidate *b) {
    candidate t = *a;
    *a = *b;
    *b = t;
}

void rf_candidates_sort(rf_candidates *l) {
    if (!l->sorted) qsort(l->c, l->n, sizeof *l->c, compare);
    l->sorted = true;
}

void rf_candidates_keep(rf_candidates *l, size_t n) { l->n = n < 1 ? 1 : n < l->n ? n : l->n; }

double rf_candidates_max(const rf_candidates *l) {
    double max = l->c[0].logit;
    for (size_t i = 1; i < l->n; i++)
        max = l->c[i].logit > max ? l->c[i].logit : max;
    return max;
}

void rf_candidates_softmax(rf_candidates *l, double scale) {
    double max = rf_candidates_max(l), sum = 0, x[FEW];
    for (size_t at = 0, n; at < l->n; at += n) {
        candidate *c = l->c + at;
        n = l->n - at < FEW ? l->n - at : FEW;
        for (size_t i = 0; i < n; i++)
            x[i] = scale * (c[i].logit - max);
        rf_exp_n(x, x, n);
        for (size_t i = 0; i < n; i++)
            sum += c[i].p = x[i];
    }
    for (size_t i = 0; i < l->n; i++)
        l->c[i].p /= sum;
}

/* Puts better candidates before worse ones; returns where these begin: at neither end.  n >= 3, all
 * different. */
static size_t part(candidate *c, size_t n) {
    candidate *low = &c[0], *mid = &c[n / 2], *high = &c[n - 1]; /* the middle one of three */
    if (rf_by_logit(low, mid) > 0) swap(low, mid);
    if (rf_by_logit(mid, high) > 0) swap(mid, high);
    if (rf_by_logit(low, mid) > 0) swap(low, mid);
    const candidate pivot = *mid;
    for (size_t i = 1, j = n - 2;; i++, j--) {
        while (rf_by_logit(&c[i], &pivot) < 0)
            i++;
        while (rf_by_logit(&c[j], &pivot) > 0)
            j--;
        if (i >= j) return j + 1;
        swap(&c[i], &c[j]);
    }
}

uint64_t rf_candidates_weigh(rf_candidates *l) {
    enum { AT_ONCE = 64 };
    const float top = (float)rf_candidates_max(l);
    float x[AT_ONCE];
    uint32_t units[AT_ONCE];
    uint64_t all = 0;
    for (size_t from = 0; from < l->n; from += AT_ONCE) {
        const size_t n = l->n - from < AT_ONCE ? l->n - from : AT_ONCE;
        for (size_t i = 0; i < n; i++)
            x[i] = (float)l->c[from + i].logit;
        all += rf_expf_units(units, x, n, top);
        for (size_t i = 0; i < n; i++)
            l->c[from + i].p = units[i];
    }
    return all;
}

/* Only the stretch where the sum ends is put in order. */
size_t rf_candidates_head(rf_candidates *l, double share) {
    size_t from = 0, to = l->n;
    double before = 0;
    while (!l->sorted && to - from > FEW) {
        size_t middle = from + part(l->c + from, to - from);
        double mass = 0;
        for (size_t i = from; i < middle; i++)
            mass += l->c[i].p;
        if (before + mass < share)
            before += mass, from = middle;
        else
            to = middle;
    }
    if (!l->sorted) qsort(l->c + from, to - from, sizeof *l->c, compare);
    l->sorted = l->sorted || to - from == l->n;
    while (from < to && (from == 0 || before < share))
        before += l->c[from++].p;
    return from;
}

/* ---- the k best ---- */

static void sift_down(candidate *heap, size_t n, size_t i) {
    for (;;) {
        size_t worst = i, left = 2 * i + 1;
        for (size_t kid = left; kid < left + 2 && kid < n; kid++)
            if (rf_by_logit(&heap[kid], &heap[worst]) > 0) worst = kid;
        if (worst == i) return;
        swap(&heap[i], &heap[worst]);
        i = worst;
    }
}

void rf_best_offer(rf_best_heap *h, candidate next) {
    if (h->n < h->k) {
        h->c[h->n++] = next;
        if (h->n == h->k)
            for (size_t i = h->n / 2 + 1; i-- > 0;)
                sift_down(h->c, h->n, i);
    } else if (rf_by_logit(&next, &h->c[0]) < 0) {
        h->c[0] = next;
        sift_down(h->c, h->n, 0);
    }
}

bool rf_best_needs(const rf_best_heap *h, float most) {
    return h->n < h->k || (double)most >= h->c[0].logit;
}

void rf_candidates_keep_best(rf_candidates *l, size_t k) {
    if (k >= l->n) return;
    rf_best_heap h = {.c = l->c, .k = k};
    for (size_t i = 0; i < l->n; i++)
        rf_best_offer(&h, l->c[i]);
    l->n = k;
    l->sorted = false;
    rf_candidates_sort(l);
}

/* ---- rows ---- */

size_t rf_row_group_size(const rf_row *r, size_t g) {
    return r->n - g * RF_BEST_GROUP < RF_BEST_GROUP ? r->n - g * RF_BEST_GROUP : RF_BEST_GROUP;
}

size_t rf_row_groups(const rf_row *r) { return (r->n + RF_BEST_GROUP - 1) / RF_BEST_GROUP; }

bool rf_row_find_most(rf_row *r) {
    static_assert(RF_BEST_GROUP == 64, "groups are those of rf_largest_of_64");
    rf_largest_of_64(r->most, r->x, r->n);
    r->max = rf_largest(r->most, rf_row_groups(r));
    return isfinite(r->max);
}

float rf_row_kth_most(const rf_row *r, size_t k, candidate *c) {
    if (k > rf_row_groups(r)) return -INFINITY;
    rf_best_heap h = {.c = c, .k = k};
    for (size_t g = 0; g < rf_row_groups(r); g++)
        if (rf_best_needs(&h, r->most[g]))
            rf_best_offer(&h, (candidate){.id = (int32_t)g, .logit = (double)r->most[g]});
    return (float)h.c[0].logit;
}

/* The masses of a group's columns below that logit, and their sum. */
static uint64_t units_of(const rf_row *r, size_t g, float max, uint32_t units[RF_BEST_GROUP]) {
    return rf_expf_units(units, r->x + g * RF_BEST_GROUP, rf_row_group_size(r, g), max);
}

static uint64_t mass_of(const rf_row *r, size_t g) {
    uint32_t units[RF_BEST_GROUP];
    if (!(r->most[g] > -INFINITY)) return 0;
    return rf_noise_mass(units_of(r, g, r->most[g], units), rf_expf(r->most[g] - r->max));
}

uint64_t rf_row_mass(const rf_row *r) {
    uint64_t all = 0;
    for (size_t g = 0; g < rf_row_groups(r); g++)
        all += mass_of(r, g);
    return all;
}

/* Of those before the column, by falling logit, then rising column. */
static uint64_t mass_before(const rf_row *r, uint32_t column) {
    const float mine = r->x[column];
    uint32_t units[RF_BEST_GROUP];
    uint64_t before = 0;
    for (size_t g = 0; g < rf_row_groups(r); g++) {
        if (!(r->most[g] >= mine)) continue;
        (void)units_of(r, g, r->max, units);
        for (size_t k = 0; k < rf_row_group_size(r, g); k++) {
            const size_t i = g * RF_BEST_GROUP + k;
            before += r->x[i] > mine || (r->x[i] == mine && i < column) ? units[k] : 0;
        }
    }
    return before;
}

/* The row is weighed, heavy groups first, until there is enough. */
bool rf_row_in_share(const rf_row *r, uint32_t column, uint32_t share) {
    const float heavy = r->max - 4;
    const uint64_t before = mass_before(r, column);
    uint64_t all = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t g = 0; g < rf_row_groups(r); g++) {
            if ((r->most[g] >= heavy) != (pass == 0)) continue;
            all += mass_of(r, g);
            if (before < rf_noise_share(all, share)) return true;
        }
    return false;
}

/* Appends whoever lies in [low, high); returns their mass. */
static uint64_t append(const rf_row *r, float low, float high, rf_candidates *l) {
    uint64_t mass = 0;
    for (size_t g = 0; g < rf_row_groups(r); g++) {
        if (!(r->most[g] >= low)) continue;
        const size_t first = g * RF_BEST_GROUP;
        uint32_t at[RF_BEST_GROUP];
        uint32_t units[RF_BEST_GROUP];
        (void)units_of(r, g, r->max, units);
        size_t n = rf_find_between(at, r->x + first, rf_row_group_size(r, g), low, high);
        for (size_t i = 0; i < n; i++) {
            const size_t id = first + at[i];
            mass += units[at[i]];
            l->c[l->n++] =
                (candidate){.id = (int32_t)id, .logit = (double)r->x[id], .p = units[at[i]]};
        }
    }
    return mass;
}

/* Slice by slice from the top, at first thin, then each as deep as all above it: few slices, and the last,
 * which alone is put in order, is seldom long.  Masses are integers, which doubles add without rounding. */
rf_candidates rf_row_head(const rf_row *r, uint64_t mass, candidate *c) {
    rf_candidates l = {.c = c};
    float high = INFINITY;
    uint64_t before = 0;
    for (float depth = 2;; depth += depth < 16 ? 2 : depth) {
        float low = r->max - depth;
        bool last = !(low > -FLT_MAX) || depth > 1e6f;
        rf_candidates slice = {.c = c + l.n};
        uint64_t more = append(r, last ? -FLT_MAX : low, high, &slice);
        if (last || before + more >= mass) {
            if (slice.n) l.n += rf_candidates_head(&slice, (double)(mass - before));
            return l;
        }
        before += more;
        l.n += slice.n;
        high = low;
    }
}
