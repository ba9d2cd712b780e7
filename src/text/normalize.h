/* normalize.h - what happens to text before it is cut: repair and, where asked, a normal form.
 *
 * Bytes that are not UTF-8 become U+FFFD, one for each byte. */
#pragma once
#include "base/base.h"
#include "base/buf.h"

/* *out borrows text where nothing changes, else room, which is overwritten. */
RF_CHECKED rf_status rf_normalize(rf_str text, bool nfc, rf_buf *room, rf_str *out);
/* Valid text in normal form D, C (compose), KD (compat) or KC (both); *out is overwritten. */
RF_CHECKED rf_status rf_normal_form(rf_str text, bool compat, bool compose, rf_buf *out);
