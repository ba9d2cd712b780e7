/* normalize.h - what happens to text before byte-level BPE sees it: repair and, where asked, NFC.
 *
 * Bytes that are not UTF-8 become U+FFFD, one for each byte. */
#pragma once
#include "base/base.h"
#include "base/buf.h"

/* *out borrows text where nothing changes, else room, which is overwritten. */
RF_CHECKED rf_status rf_normalize(rf_str text, bool nfc, rf_buf *room, rf_str *out);
