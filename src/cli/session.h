/* session.h - what the commands that run a model share: opening it, sampling flags, reading
 * prompts. */
#pragma once
#include "base/buf.h"
#include "cli/cli.h"
#include "rocmforge.h"

/* An engine from the flags; n_ctx_min: raise the default context to at least this (0: no wish). */
RF_CHECKED rf_status rf_session_open(rf_cli *c, uint32_t n_ctx_min, rf_engine **out, rf_error *e);
/* The backend that the flags ask for. */
const char *rf_session_backend(rf_cli *c);
/* Backend, devices and layers on them into the options of an engine. */
RF_CHECKED rf_status rf_session_where(rf_cli *c, rf_engine_opts *o, rf_error *e);
/* Speculation flags into the options of an engine. */
void rf_session_speculation(rf_cli *c, rf_engine_opts *o);
/* Tells on standard error when a GPU was chosen by itself, and what runs where in a split. */
void rf_session_announce(rf_cli *c, const rf_engine *en);
/* The same for a given file and context.  keep_batch: keep the activations of so many rows; 0: of
 * none, and rows as --batch says. */
RF_CHECKED rf_status rf_session_open_path(rf_cli *c, const char *path, uint32_t n_ctx,
                                          uint32_t keep_batch, rf_engine **out, rf_error *e);
/* Sampling, stop and length flags into a request.  *bias is the memory behind logit_bias; free it
 * with rf_free once the request is submitted. */
RF_CHECKED rf_status rf_session_request(rf_cli *c, rf_request_opts *o, rf_logit_bias **bias,
                                        rf_error *e);
/* What the flags ask the answer to match; *out NULL: nothing.  Close it before the engine. */
RF_CHECKED rf_status rf_session_grammar(rf_cli *c, rf_engine *en, rf_grammar **out, rf_error *e);
/* Text into ids, as the flags say. */
RF_CHECKED rf_status rf_session_tokenize(const rf_engine *en, rf_str text, bool add_special,
                                         bool parse_special, rf_ids *ids, rf_error *e);
/* "1,2,3" or "@FILE" with ids separated by commas or white space. */
RF_CHECKED rf_status rf_session_parse_ids(const char *text, rf_ids *ids, rf_error *e);
/* The whole text of: a file (NULL: none), "-" (standard input), or the text itself. */
RF_CHECKED rf_status rf_session_read(const char *file, const char *text, rf_buf *out, rf_error *e);
/* A public status and its text as an rf_error. */
rf_status rf_session_error(int status, const rf_text *why, rf_error *e);
