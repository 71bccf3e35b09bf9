#define TRITIUM_ROW_FUNCTIONS kRowsAvx2
#include "kernels/cpu/row_block.h"
