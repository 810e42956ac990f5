import {
  COUNT_ADDED,
  COUNT_BYTES_IN,
  COUNT_BYTES_OUT,
  COUNT_CLAMPED,
  COUNT_COMPLETED,
  COUNT_FULL,
  COUNT_INDIRECT,
  COUNT_NOTIFIED,
  COUNT_SUPPRESSED,
  COUNT_TABLE_FAILED,
  COUNTERS,
  FAULT_NONE,
  QUEUE_COUNTERS,
  QUEUE_FAULT,
  QUEUE_FAULT_A,
  QUEUE_FAULT_B,
  QUEUE_HEAD_BYTES,
  RESULT_BROKEN,
} from './layout';

/** Head of every control block: what the host reads. Private memory: no peer writes it. */
@unmanaged
export class Queue {
  /** FAULT_*; anything but FAULT_NONE means that the queue is broken. */
  fault: u32;
  /** Descriptors of the queue. */
  size: u32;
  faultA: u64;
  faultB: u64;
  added: u64;
  completed: u64;
  bytesOut: u64;
  bytesIn: u64;
  notified: u64;
  suppressed: u64;
  full: u64;
  clamped: u64;
  indirects: u64;
  tableFailed: u64;

  /** Marks the queue broken and returns what the operation has to return. */
  break(fault: u32, a: u64, b: u64): i32 {
    this.fault = fault;
    this.faultA = a;
    this.faultB = b;
    return RESULT_BROKEN;
  }

  mend(): void {
    this.fault = FAULT_NONE;
    this.faultA = 0;
    this.faultB = 0;
  }
}

// The host reads these by the numbers of layout.ts; a moved field must not compile.
if (
  offsetof<Queue>('fault') != QUEUE_FAULT ||
  offsetof<Queue>('faultA') != QUEUE_FAULT_A ||
  offsetof<Queue>('faultB') != QUEUE_FAULT_B ||
  offsetof<Queue>('added') != QUEUE_COUNTERS + COUNT_ADDED * 8 ||
  offsetof<Queue>('completed') != QUEUE_COUNTERS + COUNT_COMPLETED * 8 ||
  offsetof<Queue>('bytesOut') != QUEUE_COUNTERS + COUNT_BYTES_OUT * 8 ||
  offsetof<Queue>('bytesIn') != QUEUE_COUNTERS + COUNT_BYTES_IN * 8 ||
  offsetof<Queue>('notified') != QUEUE_COUNTERS + COUNT_NOTIFIED * 8 ||
  offsetof<Queue>('suppressed') != QUEUE_COUNTERS + COUNT_SUPPRESSED * 8 ||
  offsetof<Queue>('full') != QUEUE_COUNTERS + COUNT_FULL * 8 ||
  offsetof<Queue>('clamped') != QUEUE_COUNTERS + COUNT_CLAMPED * 8 ||
  offsetof<Queue>('indirects') != QUEUE_COUNTERS + COUNT_INDIRECT * 8 ||
  offsetof<Queue>('tableFailed') != QUEUE_COUNTERS + COUNT_TABLE_FAILED * 8 ||
  offsetof<Queue>() != QUEUE_HEAD_BYTES ||
  QUEUE_HEAD_BYTES != QUEUE_COUNTERS + COUNTERS * 8
)
  ERROR('abi/queue.ts and abi/layout.ts disagree');
