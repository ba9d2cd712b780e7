/* mix.c - the tables of mixes and of their rules.
 *
 * The first rule that fits a tensor decides; without one it gets the base format of the mix.  A
 * format whose block does not divide the row gives way to one of similar size that does. */
#include "quant/mix.h"

#include <string.h>

#define NONE RF_MIX_NO_FILE_TYPE
static const rf_mix mixes[] = {
    {"F32", RF_DT_F32, 0},
    {"F16", RF_DT_F16, 1},
    {"BF16", RF_DT_BF16, 32},
    {"Q4_0", RF_DT_Q4_0, 2},
    {"Q4_1", RF_DT_Q4_1, 3},
    {"Q5_0", RF_DT_Q5_0, 8},
    {"Q5_1", RF_DT_Q5_1, 9},
    {"Q8_0", RF_DT_Q8_0, 7},
    {"Q2_K", RF_DT_Q2_K, 10},
    {"Q2_K_S", RF_DT_Q2_K, 21},
    {"Q3_K_S", RF_DT_Q3_K, 11},
    {"Q3_K_M", RF_DT_Q3_K, 12},
    {"Q3_K_L", RF_DT_Q3_K, 13},
    {"Q4_K_S", RF_DT_Q4_K, 14},
    {"Q4_K_M", RF_DT_Q4_K, 15},
    {"Q5_K_S", RF_DT_Q5_K, 16},
    {"Q5_K_M", RF_DT_Q5_K, 17},
    {"Q6_K", RF_DT_Q6_K, 18},
    {"IQ2_XXS", RF_DT_IQ2_XXS, 19},
    {"IQ2_XS", RF_DT_IQ2_XS, 20},
    {"IQ2_S", RF_DT_IQ2_XS, 28},
    {"IQ2_M", RF_DT_IQ2_S, 29},
    {"IQ3_XXS", RF_DT_IQ3_XXS, 23},
    {"IQ3_XS", RF_DT_IQ3_S, 22},
    {"IQ3_S", RF_DT_IQ3_S, 26},
    {"IQ3_M", RF_DT_IQ3_S, 27},
    {"IQ4_NL", RF_DT_IQ4_NL, 25},
    {"IQ4_XS", RF_DT_IQ4_XS, 30},
    {"TQ1_0", RF_DT_TQ1_0, 36},
    {"TQ2_0", RF_DT_TQ2_0, 37},
    {"MXFP4", RF_DT_MXFP4, NONE},
    {"MXFP6_E2M3", RF_DT_MXFP6_E2M3, NONE},
    {"MXFP6_E3M2", RF_DT_MXFP6_E3M2, NONE},
};

typedef enum role {
    OTHER,
    OUTPUT, /* also a token_embd that serves as output */
    TOKEN_EMBD,
    ATTN_V,
    ATTN_K,
    ATTN_Q,
    ATTN_QKV,
    ATTN_OUT,
    FFN_DOWN,
    FFN_UP, /* and gate */
} role;

typedef enum when {
    ALWAYS,
    FIRST_2, /* layers */
    FIRST_4,
    FIRST_16TH, /* of all layers */
    FIRST_8TH,
    FIRST_8TH_WITH_IMATRIX,
    FIRST_8TH_NO_IMATRIX,
    NO_IMATRIX,
    MIDDLE,    /* all but the first and last eighth */
    MORE_BITS, /* the first and last eighth, and every third layer between */
    GQA_4,     /* at least 4 query heads share a key-value head */
    GQA_OR_EXPERTS_4,
} when;

typedef struct rule {
    const char *mix;
    role role;
    when when;
    rf_dtype type;
} rule;

/* Formats above 6 bits keep their own type for the output; the others are in output_type(). */
/* clang-format off */
#define IQ2_RULES(mix, better)                      \
    {mix, TOKEN_EMBD, ALWAYS, better},              \
    {mix, ATTN_V, GQA_OR_EXPERTS_4, RF_DT_Q4_K},    \
    {mix, ATTN_V, ALWAYS, better},                  \
    {mix, FFN_DOWN, FIRST_8TH, better}
/* clang-format on */
static const rule rules[] = {
    {"Q2_K", ATTN_V, GQA_4, RF_DT_Q4_K},
    {"Q2_K", ATTN_V, ALWAYS, RF_DT_Q3_K},
    {"Q2_K", FFN_DOWN, ALWAYS, RF_DT_Q3_K},
    {"Q2_K", ATTN_OUT, ALWAYS, RF_DT_Q3_K},
    {"Q2_K_S", ATTN_V, GQA_4, RF_DT_Q4_K},
    {"Q2_K_S", FFN_DOWN, FIRST_8TH, RF_DT_Q4_K},
    {"Q3_K_M", ATTN_V, FIRST_2, RF_DT_Q5_K},
    {"Q3_K_M", ATTN_V, ALWAYS, RF_DT_Q4_K},
    {"Q3_K_M", FFN_DOWN, FIRST_16TH, RF_DT_Q5_K},
    {"Q3_K_M", FFN_DOWN, ALWAYS, RF_DT_Q4_K},
    {"Q3_K_M", ATTN_OUT, ALWAYS, RF_DT_Q4_K},
    {"Q3_K_M", ATTN_QKV, ALWAYS, RF_DT_Q4_K},
    {"Q3_K_L", ATTN_V, ALWAYS, RF_DT_Q5_K},
    {"Q3_K_L", FFN_DOWN, ALWAYS, RF_DT_Q5_K},
    {"Q3_K_L", ATTN_OUT, ALWAYS, RF_DT_Q5_K},
    {"Q3_K_L", ATTN_QKV, ALWAYS, RF_DT_Q4_K},
    {"Q4_K_S", ATTN_V, FIRST_4, RF_DT_Q5_K},
    {"Q4_K_S", FFN_DOWN, FIRST_8TH, RF_DT_Q5_K},
    {"Q4_K_M", ATTN_V, MORE_BITS, RF_DT_Q6_K},
    {"Q4_K_M", FFN_DOWN, MORE_BITS, RF_DT_Q6_K},
    {"Q4_K_M", ATTN_QKV, ALWAYS, RF_DT_Q5_K},
    {"Q5_K_M", ATTN_V, MORE_BITS, RF_DT_Q6_K},
    {"Q5_K_M", FFN_DOWN, MORE_BITS, RF_DT_Q6_K},
    {"Q5_K_M", ATTN_QKV, ALWAYS, RF_DT_Q6_K},
    IQ2_RULES("IQ2_XXS", RF_DT_Q2_K),
    IQ2_RULES("IQ2_XS", RF_DT_Q2_K),
    IQ2_RULES("IQ2_S", RF_DT_IQ3_S),
    {"IQ2_S", ATTN_OUT, ALWAYS, RF_DT_IQ3_S},
    IQ2_RULES("IQ2_M", RF_DT_IQ3_S),
    {"IQ2_M", ATTN_OUT, ALWAYS, RF_DT_IQ3_S},
    {"IQ3_XXS", TOKEN_EMBD, ALWAYS, RF_DT_IQ3_S},
    {"IQ3_XXS", ATTN_V, GQA_4, RF_DT_Q4_K},
    {"IQ3_XXS", ATTN_V, NO_IMATRIX, RF_DT_IQ3_S},
    {"IQ3_XXS", ATTN_K, ALWAYS, RF_DT_IQ2_S},
    {"IQ3_XXS", ATTN_Q, ALWAYS, RF_DT_IQ2_S},
    {"IQ3_XXS", ATTN_OUT, ALWAYS, RF_DT_IQ3_S},
    {"IQ3_XXS", FFN_DOWN, FIRST_8TH_NO_IMATRIX, RF_DT_Q4_K},
    {"IQ3_XXS", FFN_DOWN, NO_IMATRIX, RF_DT_Q3_K},
    {"IQ3_XS", ATTN_V, GQA_4, RF_DT_Q4_K},
    {"IQ3_XS", ATTN_K, ALWAYS, RF_DT_IQ3_XXS},
    {"IQ3_XS", ATTN_Q, ALWAYS, RF_DT_IQ3_XXS},
    {"IQ3_XS", FFN_UP, MIDDLE, RF_DT_IQ3_XXS},
    {"IQ3_S", ATTN_V, GQA_4, RF_DT_Q4_K},
    {"IQ3_M", ATTN_V, ALWAYS, RF_DT_Q4_K},
    {"IQ3_M", ATTN_OUT, ALWAYS, RF_DT_Q4_K},
    {"IQ3_M", ATTN_QKV, ALWAYS, RF_DT_Q4_K},
    {"IQ3_M", FFN_DOWN, FIRST_8TH, RF_DT_Q4_K},
    {"IQ4_NL", ATTN_V, GQA_4, RF_DT_Q5_K},
    {"IQ4_NL", FFN_DOWN, FIRST_8TH_NO_IMATRIX, RF_DT_Q5_K},
    {"IQ4_XS", ATTN_V, GQA_4, RF_DT_Q5_K},
    {"IQ4_XS", FFN_DOWN, FIRST_8TH_NO_IMATRIX, RF_DT_Q5_K},
    {"Q4_0", FFN_DOWN, FIRST_8TH_WITH_IMATRIX, RF_DT_Q4_1},
    {"Q5_0", FFN_DOWN, FIRST_8TH_WITH_IMATRIX, RF_DT_Q5_1},
    {"TQ1_0", TOKEN_EMBD, ALWAYS, RF_DT_Q4_K},
    {"TQ2_0", TOKEN_EMBD, ALWAYS, RF_DT_Q4_K},
};

size_t rf_mix_count(void) { return RF_COUNT(mixes); }
const rf_mix *rf_mix_at(size_t i) { return &mixes[i]; }

static bool same_name(rf_str s, const char *name) {
    if (s.len != strlen(name)) return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i] >= 'a' && s.p[i] <= 'z' ? (char)(s.p[i] - 'a' + 'A') : s.p[i];
        if (c != name[i]) return false;
    }
    return true;
}

const rf_mix *rf_mix_find(rf_str name) {
    static const char *const aliases[][2] = {
        {"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};
    for (size_t i = 0; i < RF_COUNT(aliases); i++)
        if (same_name(name, aliases[i][0])) name = rf_str_of(aliases[i][1]);
    for (size_t i = 0; i < RF_COUNT(mixes); i++)
        if (same_name(name, mixes[i].name)) return &mixes[i];
    return NULL;
}

static bool contains(rf_str s, const char *part) {
    return memmem(s.p, s.len, part, strlen(part)) != NULL;
}

int64_t rf_mix_layer(rf_str name) {
    if (!rf_str_starts(name, "blk.")) return -1;
    int64_t n = 0;
    size_t i = 4;
    for (; i < name.len && i < 13 && name.p[i] >= '0' && name.p[i] <= '9'; i++)
        n = 10 * n + (name.p[i] - '0');
    return i > 4 && i < name.len && name.p[i] == '.' ? n : -1;
}

bool rf_mix_is_weight(rf_str name, const uint64_t ne[4]) {
    static const char *const kept[] = {"_norm",         "ffn_gate_inp", "pos_embd",
                                       "position_embd", "token_types",  "ssm_conv1d",
                                       "shortconv.conv"};
    static const char suffix[] = ".weight";
    size_t n = sizeof suffix - 1;
    if (name.len < n || memcmp(name.p + name.len - n, suffix, n) != 0) return false;
    if (ne[1] * ne[2] * ne[3] <= 1) return false;
    for (size_t i = 0; i < RF_COUNT(kept); i++)
        if (contains(name, kept[i])) return false;
    return true;
}

static role role_of(rf_str name, const rf_mix_model *model) {
    static const struct {
        const char *part;
        role role;
    } parts[] = {
        {"attn_v.weight", ATTN_V},     {"attn_kv_b.weight", ATTN_V}, {"attn_k.weight", ATTN_K},
        {"attn_qkv.weight", ATTN_QKV}, {"attn_output", ATTN_OUT},    {"ffn_down", FFN_DOWN},
        {"attn_q.weight", ATTN_Q},     {"ffn_up", FFN_UP},           {"ffn_gate", FFN_UP},
    };
    if (rf_str_is(name, "output.weight")) return OUTPUT;
    if (rf_str_is(name, "token_embd.weight")) return model->is_tied ? OUTPUT : TOKEN_EMBD;
    for (size_t i = 0; i < RF_COUNT(parts); i++)
        if (contains(name, parts[i].part)) return parts[i].role;
    return OTHER;
}

static bool holds(when w, const rf_mix_model *model, int64_t layer) {
    int64_t n = model->n_layers, first = n / 8;
    switch (w) {
    case ALWAYS:
        return true;
    case FIRST_2:
        return layer >= 0 && layer < 2;
    case FIRST_4:
        return layer >= 0 && layer < 4;
    case FIRST_16TH:
        return layer >= 0 && layer < n / 16;
    case FIRST_8TH:
        return layer >= 0 && layer < first;
    case FIRST_8TH_WITH_IMATRIX:
        return layer >= 0 && layer < first && model->has_imatrix;
    case FIRST_8TH_NO_IMATRIX:
        return layer >= 0 && layer < first && !model->has_imatrix;
    case NO_IMATRIX:
        return !model->has_imatrix;
    case MIDDLE:
        return layer >= first && layer < 7 * n / 8;
    case MORE_BITS:
        return layer >= 0 && (layer < first || layer >= 7 * n / 8 || (layer - first) % 3 == 2);
    case GQA_4:
        return model->n_gqa >= 4;
    case GQA_OR_EXPERTS_4:
        return model->n_gqa >= 4 || model->n_experts >= 4;
    }
    return false;
}

static bool is_iq2(rf_dtype t) {
    return t == RF_DT_IQ2_XXS || t == RF_DT_IQ2_XS || t == RF_DT_IQ2_S;
}

/* The output matrix meets every token's logits: 6 bits, or 5 in the smallest mixes. */
static rf_dtype output_type(rf_dtype base, uint64_t row) {
    bool is_mx = base == RF_DT_MXFP4 || base == RF_DT_MXFP6_E2M3 || base == RF_DT_MXFP6_E3M2;
    bool is_even = row % rf_dtype_get(base)->block_elems == 0;
    if (base == RF_DT_Q8_0 || is_mx || !is_even) return RF_DT_Q8_0;
    return is_iq2(base) || base == RF_DT_IQ3_XXS ? RF_DT_Q5_K : RF_DT_Q6_K;
}

/* With eight experts attention is so small a part of the model that good formats cost nothing. */
static bool expert_type(const rf_mix *mix, role r, rf_dtype *out) {
    uint32_t bytes = rf_dtype_get(mix->base)->block_bytes;
    bool is_small = rf_dtype_get(mix->base)->block_elems == 256 && bytes <= 144;
    if (r == ATTN_V || r == ATTN_K) {
        *out = is_iq2(mix->base) ? RF_DT_Q4_K : RF_DT_Q8_0;
    } else if (r == ATTN_OUT && (is_small || mix->base == RF_DT_IQ4_NL)) {
        *out = RF_DT_Q5_K;
    } else {
        return false;
    }
    return true;
}

static rf_dtype fitting(rf_dtype t, uint64_t row) {
    static const rf_dtype smaller[][2] = {
        {RF_DT_Q2_K, RF_DT_Q4_0},     {RF_DT_Q3_K, RF_DT_Q4_0},    {RF_DT_Q4_K, RF_DT_Q5_0},
        {RF_DT_Q5_K, RF_DT_Q5_1},     {RF_DT_Q6_K, RF_DT_Q8_0},    {RF_DT_IQ4_XS, RF_DT_IQ4_NL},
        {RF_DT_TQ1_0, RF_DT_Q4_0},    {RF_DT_TQ2_0, RF_DT_Q4_0},   {RF_DT_IQ2_XXS, RF_DT_IQ4_NL},
        {RF_DT_IQ2_XS, RF_DT_IQ4_NL}, {RF_DT_IQ2_S, RF_DT_IQ4_NL}, {RF_DT_IQ3_XXS, RF_DT_IQ4_NL},
        {RF_DT_IQ3_S, RF_DT_IQ4_NL},
    };
    for (size_t i = 0; i < RF_COUNT(smaller) && row % rf_dtype_get(t)->block_elems; i++)
        if (smaller[i][0] == t) t = smaller[i][1];
    return row % rf_dtype_get(t)->block_elems ? RF_DT_F16 : t;
}

rf_dtype rf_mix_type(const rf_mix *mix, const rf_mix_model *model, rf_str name, uint64_t row) {
    rf_dtype type = mix->base;
    if (!rf_dtype_get(type)->is_block) return type;
    role r = role_of(name, model);
    int64_t layer = rf_mix_layer(name);
    if (r == OUTPUT) return fitting(output_type(type, row), row);
    if (model->n_experts == 8 && expert_type(mix, r, &type)) return fitting(type, row);
    for (size_t i = 0; i < RF_COUNT(rules); i++) {
        if (strcmp(rules[i].mix, mix->name) != 0 || rules[i].role != r) continue;
        if (!holds(rules[i].when, model, layer)) continue;
        type = rules[i].type;
        break;
    }
    return fitting(type, row);
}
