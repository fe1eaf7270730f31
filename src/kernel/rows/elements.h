/* Single elements: listed positions along axes, or points. A row is the box around those of one
 * chunk; here they are copied between that box and the array. */
#ifndef OZ_ELEMENTS_H
#define OZ_ELEMENTS_H

#include "rows/rows.h"

/* Copy the elements of a row between a box, given by its first element, and the array: to the box
 * if `storing`, else to the array. */
void oz_copy_elements(const oz_batch *batch, const oz_row *row, unsigned char *box,
                      const int64_t *strides, int storing);

/* Return a byte for each of the inner chunks that a row touches, 1 where it has an element. Owned
 * by the caller, who frees it; NULL without memory. */
unsigned char *oz_mark_inner(const oz_batch *batch, const oz_row *row, const oz_inner_box *touched);

#endif
