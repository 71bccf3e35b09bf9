#define TRITIUM_SNAKE_FUNCTIONS kSnakeAvx2
#include "kernels/cpu/snake_block.h"
