/* inst.h - decoded instructions and the state they act on; shared by the emulator's own files only.
 *
 * A row of a table of opcodes says by a signature what an instruction writes and reads; decode.c
 * makes operands of it; lanes.c and scalar.c fetch by it, call the row's function on plain words and
 * store the result.  Instructions that are not of that kind (memory, branches, matrices) have a run
 * function of their own.
 *
 * Signature "destinations:sources", one letter each:
 *   f f32     i 32 bits   q 64 bits   d f64
 *   h f16: a source arrives as f32, a result is the 16 bits
 *   u 16 bits p two 16-bit halves     w two f32
 *   x a source: f32 or f16 by op_sel_hi (fma_mix), arrives as f32; a destination: EXEC (v_cmpx)
 *   m one bit per lane in an SGPR (pair)
 *   n no operand: the bits of neg_lo  + the next source is the destination */
#pragma once
#include "gpuemu/emu.h"

enum {
    RF_EMU_ROW = 64, /* words of one VGPR, whatever the wave's size */
    RF_EMU_VCC = 106,
    RF_EMU_TTMP = 108,
    RF_EMU_EXEC = 126,
    RF_EMU_M0 = 140,
    RF_EMU_NULL = 142, /* reads 0, two words */
    RF_EMU_SCC = 144,
    RF_EMU_N_SGPR = 164, /* 16 words to spare: no operand reaches past the array */
    RF_EMU_AGPR = 256,   /* number of the first accumulation register in text */
    RF_EMU_MAX_SRC = 4,
    RF_EMU_MAX_OPERANDS = 8,
};

enum { RF_EMU_NONE /* "off" */, RF_EMU_VGPR, RF_EMU_SGPR, RF_EMU_CONST };

typedef struct rf_emu_operand {
    uint8_t place;
    uint8_t n;    /* registers */
    uint16_t reg; /* row of the wave's vector registers, or scalar register */
    bool neg : 1, abs : 1, sext : 1;
    bool low : 1, high : 1; /* v1.l, v1.h */
    bool is_float : 1; /* a constant written with a point; value holds its f32 bits until bound */
    uint64_t value;    /* of a constant, in the form that the source's letter wants */
} rf_emu_operand;

typedef struct rf_emu_inst rf_emu_inst;
typedef struct rf_emu_wave rf_emu_wave;
typedef struct rf_emu_block rf_emu_block;

/* What a vector function sees: sources as rows of words, one per lane; the second word of a 64-bit
 * value of lane l is at [RF_EMU_ROW + l].  All lanes are computed, active or not. */
typedef struct rf_emu_lanes {
    const uint32_t *s[RF_EMU_MAX_SRC];
    uint32_t *d;
    uint64_t mask_in, mask_out;
    uint32_t n; /* 32 or 64 */
} rf_emu_lanes;

typedef struct rf_emu_scalar {
    uint64_t s[RF_EMU_MAX_SRC];
    uint64_t d;
    bool scc;
} rf_emu_scalar;

/* Executes one instruction; false: a fault was recorded in the block. */
typedef bool (*rf_emu_run_fn)(rf_emu_wave *w, const rf_emu_inst *i);

/* One row of a table of opcodes: exactly one of lanes, scalar, run. */
typedef struct rf_emu_op {
    const char *name;
    const char *sig; /* of lanes and scalar */
    void (*lanes)(rf_emu_lanes *x);
    void (*scalar)(rf_emu_scalar *x);
    rf_emu_run_fn run;
    uint32_t arg; /* of run: bytes of an access, kind of a matrix product, ... */
} rf_emu_op;

/* Bits of rf_emu_op.arg of memory instructions, beside the number of bytes. */
enum {
    RF_EMU_BYTES = 0xff,
    RF_EMU_SIGNED = 0x100,
    RF_EMU_D16 = 0x200,    /* keeps the register's other half */
    RF_EMU_D16_HI = 0x400, /* the upper half of the register */
    RF_EMU_ST64 = 0x800,   /* offsets count 64 elements */
};

/* Read and write "other lane" forms of a source: DPP and SDWA. */
typedef struct rf_emu_dpp {
    bool on, dpp8, bound, inactive; /* inactive: fetch from inactive lanes too (fi:1) */
    uint32_t control, row_mask, bank_mask;
} rf_emu_dpp;

typedef struct rf_emu_sdwa {
    bool on;
    uint32_t dst, src0, src1; /* 0..3 byte, 4..5 word, 6 all */
    bool preserve, sign;      /* the rest of the destination: kept, sign, or zero */
} rf_emu_sdwa;

struct rf_emu_inst {
    rf_emu_run_fn run;
    const rf_emu_op *op;
    rf_emu_class class;
    uint32_t address; /* in the image */
    uint32_t gfx;     /* 9, 10, 11, 12 */
    uint32_t n_operands;
    rf_emu_operand o[RF_EMU_MAX_OPERANDS];
    /* operand numbers by the signature; src_type follows the sources */
    uint32_t n_dst, n_src;
    char dst_type[2], src_type[RF_EMU_MAX_SRC];
    rf_emu_operand src[RF_EMU_MAX_SRC];
    bool acc_first; /* "+" was the first source: not counted by op_sel */
    uint32_t op_sel, op_sel_hi, neg_lo, neg_hi, dst_sel_bit;
    bool has_op_sel_hi;
    uint32_t omod; /* 0 none, 1 *2, 2 *4, 3 /2 */
    bool clamp;
    bool returns; /* an atomic that gives the old value */
    rf_emu_dpp dpp;
    rf_emu_sdwa sdwa;
    int64_t offset;
    uint32_t offset1;
    uint32_t target;         /* of a branch: instruction number */
    const rf_emu_inst *pair; /* v_dual_a :: v_dual_b: two of them */
};

struct rf_emu_wave {
    rf_emu_block *block;
    uint32_t *v; /* [registers][RF_EMU_ROW] */
    uint32_t s[RF_EMU_N_SGPR];
    uint32_t pc, n, id;
    bool done, waiting;
    uint64_t row_mask_of;          /* the EXEC value that row_mask spells out */
    uint32_t row_mask[RF_EMU_ROW]; /* ~0 for an active lane, else 0 */
    uint64_t lane_ops;
    /* Of each class, and bytes loaded; the rest is summed up when a launch ends. */
    rf_emu_stats stats;
};

/* Who of a block, beside a wave's number, a tag of the LDS shadow may name. */
enum { RF_EMU_MANY = 0xff, RF_EMU_ATOMIC = 0xfe };

struct rf_emu_block {
    const rf_emu_kernel *kernel;
    const rf_emu_launch *launch;
    uint32_t at[3];
    uint8_t *lds;
    /* per LDS byte, who wrote and read it last and when: epoch << 8 | who, [lds_bytes + 16] */
    uint32_t *written, *read;
    uint32_t lds_bytes;
    uint32_t first_epoch, epoch; /* epochs go up at each barrier and at each block */
    rf_emu_range hit;            /* the range of the last global access */
    rf_error *error;
};

struct rf_emu_module {
    char arch[32];
    uint32_t gfx;
    bool packed_ids; /* x | y << 10 | z << 20 in v0 */
    uint8_t *image;  /* the loaded segments, mapped */
    size_t image_bytes;
    uint64_t text_lo, text_hi;
    rf_emu_kernel *kernels;
    size_t n_kernels;
    struct rf_emu_symbol {
        char name[128];
        uint64_t address, bytes;
    } * symbols;
    size_t n_symbols;
    rf_emu_inst *code;
    size_t n_code, cap_code;
    rf_emu_inst *pairs; /* [n_pairs][2], made after the code is complete */
    size_t n_pairs, cap_pairs;
    uint32_t *at_address; /* [(text_hi - text_lo) / 4]: instruction number or UINT32_MAX */
    size_t *text_of;      /* [n_code]: where the instruction's text begins in text */
    char *text;
    size_t n_text, cap_text;
    uint32_t n_vgpr, n_agpr; /* rows that a wave of this module needs; AGPRs follow the VGPRs */
};

/* tables, each ended by a row without a name */
extern const rf_emu_op rf_emu_ops_scalar[], rf_emu_ops_float[], rf_emu_ops_int[], rf_emu_ops_half[],
    rf_emu_ops_compare[], rf_emu_ops_cross[], rf_emu_ops_memory[], rf_emu_ops_lds[],
    rf_emu_ops_matrix[], rf_emu_ops_flow[];

const rf_emu_op *rf_emu_op_find(const char *name); /* NULL: not known */
bool rf_emu_is_wait(const char *name);             /* changes nothing that is modelled */

rf_status rf_emu_elf_load(rf_emu_module *m, const void *elf, size_t n, rf_error *e) RF_CHECKED;
rf_status rf_emu_note_read(rf_emu_module *m, const uint8_t *p, size_t n, rf_error *e) RF_CHECKED;
rf_emu_class rf_emu_class_of(const rf_emu_inst *i);
rf_status rf_emu_decode(rf_emu_module *m, const void *elf, size_t n, rf_error *e) RF_CHECKED;
/* One instruction from its text, which is changed; what says why not, in a few words. */
bool rf_emu_parse(char *text, uint32_t gfx, rf_emu_inst *i, const char **what);
bool rf_emu_parse_operand(char *text, rf_emu_operand *o);
bool rf_emu_bind(rf_emu_inst *i, const char **what);

bool rf_emu_run_lanes(rf_emu_wave *w, const rf_emu_inst *i);
bool rf_emu_run_pair(rf_emu_wave *w, const rf_emu_inst *i);
bool rf_emu_run_scalar(rf_emu_wave *w, const rf_emu_inst *i);
bool rf_emu_run_unknown(rf_emu_wave *w, const rf_emu_inst *i);

/* Records "kernel, block, wave, why: instruction" and returns false. */
bool rf_emu_fault(rf_emu_wave *w, const rf_emu_inst *i, const char *fmt, ...) RF_PRINTF(3, 4);
const char *rf_emu_inst_text(const rf_emu_module *m, const rf_emu_inst *i);
/* May [address, address + bytes) be read (written)?  Else a fault. */
bool rf_emu_check_global(rf_emu_wave *w, const rf_emu_inst *i, uint64_t address, uint32_t bytes,
                         bool write);
float rf_emu_approximate(float exact);

/* One loaded value of lane l into its register(s) by op->arg; one value to be stored from them. */
void rf_emu_put_loaded(const rf_emu_wave *w, const rf_emu_inst *i, uint32_t l, const void *from);
void rf_emu_get_stored(const rf_emu_wave *w, const rf_emu_inst *i, const rf_emu_operand *o,
                       uint32_t l, uint32_t out[4]);

typedef enum rf_emu_atomic_kind {
    RF_EMU_ADD,
    RF_EMU_SUB,
    RF_EMU_ADD_F,
    RF_EMU_SWAP,
    RF_EMU_CMPSWAP,
    RF_EMU_MAX_I,
    RF_EMU_MAX_U,
    RF_EMU_MIN_I,
    RF_EMU_MIN_U,
    RF_EMU_AND,
    RF_EMU_OR,
    RF_EMU_XOR
} rf_emu_atomic_kind;
/* What becomes of the value x in memory when d arrives. */
uint64_t rf_emu_atomic(uint32_t kind, uint64_t x, uint64_t d, uint64_t expected, bool wide);

static inline float rf_emu_f32(uint32_t u) {
    float f;
    __builtin_memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint32_t rf_emu_u32(float f) {
    uint32_t u;
    __builtin_memcpy(&u, &f, sizeof u);
    return u;
}

static inline uint64_t rf_emu_mask(const rf_emu_wave *w, uint32_t reg) {
    return w->s[reg] | (w->n == 64 ? (uint64_t)w->s[reg + 1] << 32 : 0);
}
static inline void rf_emu_set_mask(rf_emu_wave *w, uint32_t reg, uint64_t mask) {
    if (reg == RF_EMU_NULL) return;
    w->s[reg] = (uint32_t)mask;
    if (w->n == 64) w->s[reg + 1] = (uint32_t)(mask >> 32);
}
/* The low word of a scalar or constant operand; of a VGPR, lane 0. */
static inline uint32_t rf_emu_word(const rf_emu_wave *w, const rf_emu_operand *o) {
    if (o->place == RF_EMU_CONST) return (uint32_t)o->value;
    return o->place == RF_EMU_VGPR ? w->v[o->reg * RF_EMU_ROW] : w->s[o->reg];
}
static inline uint64_t rf_emu_wide(const rf_emu_wave *w, const rf_emu_operand *o) {
    if (o->place == RF_EMU_CONST) return o->value;
    return w->s[o->reg] | (uint64_t)w->s[o->reg + 1] << 32;
}
static inline uint32_t *rf_emu_row(const rf_emu_wave *w, const rf_emu_operand *o) {
    return w->v + (size_t)o->reg * RF_EMU_ROW;
}
