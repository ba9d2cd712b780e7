/* flow.c - branches, barriers and the end of a wave; what is not known stops the kernel. */
#include <string.h>

#include "gpuemu/inst.h"

static bool jump(rf_emu_wave *w, const rf_emu_inst *i, bool taken) {
    if (!taken) return true;
    if (i->target == UINT32_MAX) return rf_emu_fault(w, i, "branch to no instruction");
    w->pc = i->target;
    return true;
}

static bool branch(rf_emu_wave *w, const rf_emu_inst *i) { return jump(w, i, true); }
static bool execz(rf_emu_wave *w, const rf_emu_inst *i) {
    return jump(w, i, rf_emu_mask(w, RF_EMU_EXEC) == 0);
}
static bool execnz(rf_emu_wave *w, const rf_emu_inst *i) {
    return jump(w, i, rf_emu_mask(w, RF_EMU_EXEC) != 0);
}
static bool vccz(rf_emu_wave *w, const rf_emu_inst *i) {
    return jump(w, i, rf_emu_mask(w, RF_EMU_VCC) == 0);
}
static bool vccnz(rf_emu_wave *w, const rf_emu_inst *i) {
    return jump(w, i, rf_emu_mask(w, RF_EMU_VCC) != 0);
}
static bool scc0(rf_emu_wave *w, const rf_emu_inst *i) { return jump(w, i, !w->s[RF_EMU_SCC]); }
static bool scc1(rf_emu_wave *w, const rf_emu_inst *i) { return jump(w, i, w->s[RF_EMU_SCC] != 0); }
static bool end(rf_emu_wave *w, const rf_emu_inst *i) {
    (void)i;
    w->done = true;
    return true;
}
static bool barrier(rf_emu_wave *w, const rf_emu_inst *i) {
    (void)i;
    w->waiting = true;
    return true;
}

bool rf_emu_run_unknown(rf_emu_wave *w, const rf_emu_inst *i) {
    return rf_emu_fault(w, i, "instruction not known to the emulator");
}

#define R(name_, fn_) \
    { .name = name_, .run = fn_ }

const rf_emu_op rf_emu_ops_flow[] = {
    R("s_branch", branch),
    R("s_cbranch_execz", execz),
    R("s_cbranch_execnz", execnz),
    R("s_cbranch_vccz", vccz),
    R("s_cbranch_vccnz", vccnz),
    R("s_cbranch_scc0", scc0),
    R("s_cbranch_scc1", scc1),
    R("s_endpgm", end),
    R("s_barrier", barrier),
    R("s_barrier_wait", barrier),
    {0},
};

/* Waits, hints and cache control: nothing of this is modelled, all of it is done at once. */
static const char *const waits[] = {"s_nop",
                                    "s_waitcnt",
                                    "s_waitcnt_depctr",
                                    "s_waitcnt_vscnt",
                                    "s_waitcnt_lgkmcnt",
                                    "s_waitcnt_vmcnt",
                                    "s_waitcnt_expcnt",
                                    "s_delay_alu",
                                    "s_clause",
                                    "s_inst_prefetch",
                                    "s_set_inst_prefetch_distance",
                                    "s_code_end",
                                    "s_barrier_signal",
                                    "s_wait_alu",
                                    "s_wait_dscnt",
                                    "s_wait_kmcnt",
                                    "s_wait_loadcnt",
                                    "s_wait_storecnt",
                                    "s_wait_loadcnt_dscnt",
                                    "s_wait_storecnt_dscnt",
                                    "s_wait_samplecnt",
                                    "s_wait_bvhcnt",
                                    "s_wait_expcnt",
                                    "s_wait_idle",
                                    "s_sendmsg",
                                    "s_sleep",
                                    "s_setprio",
                                    "s_sethalt",
                                    "s_icache_inv",
                                    "s_dcache_wb",
                                    "s_dcache_inv",
                                    "s_ttracedata",
                                    "s_prefetch_inst",
                                    "s_prefetch_data",
                                    "s_wait_event",
                                    "buffer_gl0_inv",
                                    "buffer_gl1_inv",
                                    "buffer_wbl2",
                                    "buffer_inv",
                                    "buffer_wbinvl1",
                                    "buffer_wbinvl1_vol",
                                    "global_inv",
                                    "global_wb",
                                    "global_wbinv",
                                    "v_nop",
                                    "global_prefetch_b8"};

bool rf_emu_is_wait(const char *name) {
    for (size_t k = 0; k < RF_COUNT(waits); k++)
        if (!strcmp(name, waits[k])) return true;
    return false;
}
