/* gguf_copy.h - what the commands that write a model file again share: its keys, and its parts. */
#pragma once
#include "cli/cli.h"
#include "gguf/writer.h"

/* --split-max-size and --split-max-tensors to the writer, when given. */
RF_CHECKED rf_status rf_gguf_copy_split(const rf_cli *c, rf_gguf_writer *w, rf_error *e);
/* Every key but those of a split and those in dropped, ended by NULL. */
RF_CHECKED rf_status rf_gguf_copy_keys(const rf_gguf *from, rf_gguf_writer *to,
                                       const char *const *dropped, rf_error *e);
/* A tensor's bytes, in pieces: done_bytes + what is written goes to progress. */
RF_CHECKED rf_status rf_gguf_copy_data(const rf_gguf_tensor *t, rf_gguf_writer *w,
                                       rf_progress *progress, uint64_t done_bytes, rf_error *e);
/* Two names of one file: writing it would destroy what is read. */
bool rf_is_same_file(const char *a, const char *b);
