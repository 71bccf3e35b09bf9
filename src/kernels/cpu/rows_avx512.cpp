#define TRITIUM_ROW_FUNCTIONS kRowsAvx512
#include "kernels/cpu/row_block.h"
