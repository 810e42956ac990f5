import { NetFeature } from '../../device-types.js';
import type { DeviceQueue } from '../../queue/device-queue.js';
import type { Elements } from '../../queue/elements.js';
import type { RunningQueue } from '../device.js';
import { Copier, type PieceCursor, writable } from './copy.js';
import { NET_HEADER, netHeader } from './net.js';

/** Buffers of one burst. */
export const BURST = 64;
/** A frame does not fit the receive buffers that there are: more may come. */
export const WAIT = -1;

/** A receive or transmit queue with what goes through it. */
export interface End {
  queue: DeviceQueue;
  elements: Elements;
  mergeable: boolean;
  copier: Copier;
}

export function makeEnd({ queue, features, engine }: RunningQueue): End {
  return {
    queue,
    elements: queue.createElements(BURST),
    mergeable: features.has(NetFeature.MRG_RXBUF),
    copier: new Copier(engine),
  };
}

/** Most buffers that can be popped at a time. */
export const most = ({ queue }: End): number => Math.min(BURST, queue.size);

/** Puts the last `n` popped elements back. */
export function putBack(queue: DeviceQueue, n: number): void {
  if (!queue.rewind(n)) throw new Error(`invariant: the last ${n} elements popped are in flight`);
}

/**
 * Places a frame of `length` bytes, with its header, in popped receive buffers from `first` on.
 * @param room how many buffers there are
 * @param write writes the next `share` bytes of the frame
 * @returns how many buffers it took; 0 if no buffers can ever hold it; WAIT if it takes more than `room`
 */
export function place(
  to: End,
  first: number,
  room: number,
  length: number,
  write: (into: PieceCursor, share: number) => void,
): number {
  // How many buffers: known before a byte is written.
  const limit = to.mergeable ? room : Math.min(room, 1);
  const targets: PieceCursor[] = [];
  let bytes = 0;
  while (targets.length < limit && bytes < NET_HEADER + length) {
    const target = writable(to.elements, first + targets.length);
    targets.push(target);
    bytes += target.left;
  }
  if (bytes < NET_HEADER + length) {
    const all = to.mergeable ? first === 0 && room === most(to) : room > 0;
    return all ? 0 : WAIT;
  }
  if (targets[0].left < NET_HEADER) return 0;
  targets[0].write(to.copier.u8, netHeader(new Uint8Array(NET_HEADER), targets.length));
  let rest = length;
  targets.forEach((target, k) => {
    const share = Math.min(rest, target.left);
    write(target, share);
    rest -= share;
    to.elements.setWritten(first + k, share + (k === 0 ? NET_HEADER : 0));
  });
  return targets.length;
}
