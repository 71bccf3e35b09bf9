#define TRITIUM_ROW_FUNCTIONS kRowsGeneric
#include "kernels/cpu/row_block.h"
