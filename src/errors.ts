import * as L from '../assembly/abi/layout.js';

/**
 * Class of an error. A caller can branch on it; the message says the rest.
 *
 * - `EINVAL` an argument is of the wrong type, out of range or out of order
 * - `ENOSPC` a record array handed in is too small for what it must hold
 * - `ENOMEM` the arena or the memory has no room
 * - `EPROTO` the other side broke the rules of the ring (indices, ids, flags)
 * - `ELOOP`  a descriptor chain that never ends
 * - `E2BIG`  a chain longer than the specification allows
 * - `EFAULT` an address outside the given memory
 * - `EIO`    the device or the transport failed
 * - `ENOTSUP` the platform lacks what was asked for
 */
export type ErrorCode =
  | 'EINVAL'
  | 'ENOSPC'
  | 'ENOMEM'
  | 'EPROTO'
  | 'ELOOP'
  | 'E2BIG'
  | 'EFAULT'
  | 'EIO'
  | 'ENOTSUP';

/** Every error that vring throws. `code` is its class, `message` has the offending values. */
export class VringError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(`${code}: ${message}`, options);
    this.name = 'VringError';
    this.code = code;
  }
}

/** Short form of any value for an error message. */
export function show(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null)
    return `an object (${value.constructor?.name ?? 'Object'})`;
  return String(value);
}

/** Why a queue is broken. */
export interface Fault {
  code: ErrorCode;
  reason: string;
}

type Describe = (a: bigint, b: bigint) => string;

const hex = (n: bigint) => `0x${n.toString(16)}`;

const FAULTS: Record<number, readonly [ErrorCode, Describe]> = {
  [L.FAULT_AVAIL_IDX]: ['EPROTO', (a, b) => `avail.idx ${a} is more than the queue size ahead of ${b}`],
  [L.FAULT_HEAD_RANGE]: ['EPROTO', (a, b) => `avail.ring names head ${a}, the queue has ${b} descriptors`],
  [L.FAULT_HEAD_IN_FLIGHT]: [
    'EPROTO',
    (a, b) => `avail.ring names head ${a}, which is still in flight (${b} elements in flight)`,
  ],
  [L.FAULT_NEXT_RANGE]: ['EPROTO', (a, b) => `next is ${a}, its table has ${b} descriptors`],
  [L.FAULT_CHAIN_LOOP]: [
    'ELOOP',
    (a, b) => `the chain of head ${a} loops: more than ${b} descriptors visited`,
  ],
  [L.FAULT_CHAIN_LONG]: [
    'E2BIG',
    (a, b) => `the chain of head ${a} has more descriptors than the queue size ${b}`,
  ],
  [L.FAULT_SEGMENT_RANGE]: ['EFAULT', (a, b) => `segment at ${hex(a)}, length ${b}, is outside every region`],
  [L.FAULT_SEGMENT_ORDER]: [
    'EPROTO',
    (a, b) => `device-readable segment at ${hex(a)}, length ${b}, after a device-writable one`,
  ],
  [L.FAULT_INDIRECT_REFUSED]: [
    'EPROTO',
    (a, b) => `descriptor ${a} has flags ${hex(b)}: INDIRECT_DESC was not negotiated`,
  ],
  [L.FAULT_INDIRECT_NESTED]: [
    'EPROTO',
    (a, b) => `descriptor ${a} of an indirect table has flags ${hex(b)}: a table inside a table`,
  ],
  [L.FAULT_INDIRECT_NEXT]: [
    'EPROTO',
    (a, b) => {
      const why = b & BigInt(L.DESC_F_NEXT) ? 'with NEXT' : 'behind another descriptor of its chain';
      return `descriptor ${a} has flags ${hex(b)}: INDIRECT ${why}`;
    },
  ],
  [L.FAULT_TABLE_LENGTH]: [
    'EPROTO',
    (a, b) => `indirect table at ${hex(b)} has length ${a}: not a positive multiple of ${L.DESC_BYTES}`,
  ],
  [L.FAULT_TABLE_RANGE]: [
    'EFAULT',
    (a, b) => `indirect table at ${hex(a)}, length ${b}, is not in one region`,
  ],
  [L.FAULT_CHAIN_BYTES]: ['E2BIG', (a, b) => `the chain of head ${a} has ${b} bytes, more than 2^32`],
  [L.FAULT_USED_IDX]: ['EPROTO', (a, b) => `used.idx ${a} is ahead of ${b} by more than what is in flight`],
  [L.FAULT_USED_ID_RANGE]: ['EPROTO', (a, b) => `used id ${a}, the queue has ${b} descriptors`],
  [L.FAULT_USED_ID]: ['EPROTO', (a, b) => `used id ${a} (length ${b}) is not the head of a buffer in flight`],
  [L.FAULT_DESC_UNAVAILABLE]: [
    'EPROTO',
    (a, b) => `the chain at slot ${a} goes on to slot ${b}, which is not available`,
  ],
  [L.FAULT_SLOTS]: [
    'EPROTO',
    (a, b) => `the chain at slot ${a} does not fit beside the ${b} slots that are in flight`,
  ],
  [L.FAULT_USED_BATCH]: [
    'EPROTO',
    (a, b) => `the batch that ends with used id ${a} has more buffers than the ${b} used entries`,
  ],
  [L.FAULT_USED_LEN]: ['EPROTO', (a, b) => `used length ${a} is above the writable length ${b}`],
};

/** Code and text of fault `kind` (`FAULT_*`) with its two offending values. */
export function describeFault(kind: number, a: bigint, b: bigint): Fault {
  const [code, describe] = FAULTS[kind];
  return { code, reason: describe(a, b) };
}
