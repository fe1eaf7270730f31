"""Operations that only read: statistics, differences, and the bytes of nodes."""
