#define TRITIUM_SNAKE_FUNCTIONS kSnakeAvx512
#include "kernels/cpu/snake_block.h"
