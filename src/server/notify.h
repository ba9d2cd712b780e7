/* notify.h - word to the service manager that started the server. */
#pragma once
#include "base/base.h"

/* "READY=1" or "STOPPING=1".  Does nothing where no service manager waits for it. */
void rf_notify(const char *state);
