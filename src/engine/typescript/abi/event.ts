/**
 * Event suppression with EVENT_IDX (2.7.7, 2.7.10): true if one of the last `count` entries, which end
 * before index `idx`, is the one that `event` names.
 *
 * `count` may be 65536 and must not be above: then every entry was written at least once since the last
 * look, and whatever `event` says, it was passed.
 */
export const needEvent = (event: number, idx: number, count: number): boolean =>
  ((idx - event - 1) & 0xffff) < count;

/** What a count of entries saturates at: see `needEvent`. */
export const EVENT_WINDOW_MAX = 65536;
