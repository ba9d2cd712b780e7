/* route.c - which experts a router picks for a row, and with what weights.
 *
 * A few hundred scores per row: plain C, the same on every processor.  Sums run in order of
 * expert, those over the picked ones in order of rank. */
#include "backend/cpu/exec.h"
#include "base/fmath.h"

static float sigmoid(float x) { return 1.0f / (1.0f + rf_expf(-x)); }

/* In place: exp(x[i] - most) / sum of them */
static void softmax(float *x, uint32_t n) {
    float most = x[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = rf_expf(x[i] - most);
        sum += x[i];
    }
    for (uint32_t i = 0; i < n; i++)
        x[i] /= sum;
}

/* The index of the highest x[i] not yet taken, the lowest such index; n when all are. */
static uint32_t best_of(const float *x, const bool *taken, uint32_t n) {
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || x[i] > x[best])) best = i;
    return best;
}

/* A group's claim: its best choice, or the sum of its two best. */
static float claim_of(const float *choice, uint32_t n, bool two) {
    uint32_t first = 0, second = n;
    for (uint32_t i = 1; i < n; i++)
        if (choice[i] > choice[first]) first = i;
    for (uint32_t i = 0; i < n; i++)
        if (i != first && (second == n || choice[i] > choice[second])) second = i;
    return two && second < n ? choice[first] + choice[second] : choice[first];
}

/* Takes the experts of all but the n_groups_used strongest groups out of the contest. */
static void close_groups(const rf_router *r, const float *choice, bool *taken) {
    float claim[RF_MAX_EXPERTS];
    bool open[RF_MAX_EXPERTS] = {false};
    uint32_t n = r->n_experts / r->n_groups;
    for (uint32_t g = 0; g < r->n_groups; g++)
        claim[g] = claim_of(choice + (size_t)g * n, n, r->select_bias != NULL);
    for (uint32_t i = 0; i < r->n_groups_used; i++)
        open[best_of(claim, open, r->n_groups)] = true;
    for (uint32_t i = 0; i < r->n_experts; i++)
        taken[i] = !open[i / n];
}

void rf_cpu_route(const rf_router *r, const float *scores, float *dst) {
    float p[RF_MAX_EXPERTS], choice[RF_MAX_EXPERTS], *weight = dst, *expert = dst + r->n_used;
    bool taken[RF_MAX_EXPERTS] = {false};
    for (uint32_t i = 0; i < r->n_experts; i++)
        p[i] = r->kind == RF_ROUTER_SIGMOID ? sigmoid(scores[i]) : scores[i];
    if (r->kind == RF_ROUTER_SOFTMAX) softmax(p, r->n_experts);
    for (uint32_t i = 0; i < r->n_experts; i++)
        choice[i] = r->select_bias ? p[i] + r->select_bias[i] : p[i];
    if (r->n_groups > 1) close_groups(r, choice, taken);
    for (uint32_t i = 0; i < r->n_used; i++) {
        uint32_t best = best_of(choice, taken, r->n_experts);
        taken[best] = true;
        weight[i] = p[best];
        expert[i] = (float)best;
    }
    if (r->kind == RF_ROUTER_SOFTMAX_TOPK) softmax(weight, r->n_used);
    if (r->normalise) {
        float sum = 0;
        for (uint32_t i = 0; i < r->n_used; i++)
            sum += weight[i];
        sum = sum < 0x1p-14f ? 0x1p-14f : sum;
        for (uint32_t i = 0; i < r->n_used; i++)
            weight[i] /= sum;
    }
    for (uint32_t i = 0; i < r->n_used; i++)
        weight[i] *= r->scale;
}
