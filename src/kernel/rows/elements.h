/* Single elements: listed positions along axes, or points. A row is the box around those of one
 * chunk; here they are copied between that box and the array. */
#ifndef OZ_ELEMENTS_H
#define OZ_ELEMENTS_H

#include "rows/rows.h"

/* Copy the elements of a row between a box, given by its first element, and the array: to the box
 * if `storing`, else to the array. */
void oz_copy_elements(const oz_batch *batch, const oz_row *row, unsigned char *box,
                      const int64_t *strides, int storing);

/* Return a byte for each inner chunk that a row of listed positions touches, 1 where it has one. Owned
 * by the caller, who frees it; NULL without memory. */
unsigned char *oz_mark_inner(const oz_batch *batch, const oz_row *row, const oz_inner_box *touched);

/* Copy point number `n` of a batch to the array, from a box of the chunk that begins at `start`. */
void oz_copy_point(const oz_batch *batch, int64_t n, const unsigned char *box, const int64_t *start,
                   const int64_t *strides);

/* Return the points of a row sorted by inner chunk: for each of those that the row touches where its
 * points end, counted from the first one, then the numbers of all points. Owned by the caller, who
 * frees it; NULL without memory. */
int64_t *oz_sort_points(const oz_batch *batch, const oz_row *row, const oz_inner_box *touched);

#endif
