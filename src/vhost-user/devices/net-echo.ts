import type { Device, RunningQueue } from '../device.js';
import { readable } from './copy.js';
import { NET_HEADER, netBatches, netConfig, netFeatures } from './net.js';
import { type End, makeEnd, most, place, putBack, WAIT } from './net-end.js';

const RECEIVE = 0;

/** Receive and transmit queue that belong together; `receive` is what the driver receives from. */
interface Pair {
  receive: End | undefined;
  transmit: End | undefined;
  /** A frame waits for receive buffers. */
  waiting: boolean;
  /** The next frame takes more receive buffers than one. */
  large: boolean;
}

export interface NetEchoCounts {
  /** Frames that went back to the driver. */
  frames: number;
  bytes: number;
  /** Frames without a byte behind the header, or longer than what the driver's buffers can hold. */
  dropped: number;
}

/**
 * A network device that sends every frame back to where it came from: from the transmit queue's buffers right
 * into the receive queue's. Frames wait for receive buffers.
 */
export class NetEcho implements Device {
  readonly features: number[];
  readonly queues: number;
  readonly config: Uint8Array;
  readonly batches = netBatches;
  readonly counts: NetEchoCounts = { frames: 0, bytes: 0, dropped: 0 };
  private readonly pairs: Pair[];
  private armed = false;
  /** Where a look goes, so that the compiler does not leave it out. */
  seen = 0;

  /** @param pairs queue pairs, 1 … 128 */
  constructor(pairs = 1) {
    this.features = netFeatures(pairs);
    this.queues = pairs * 2;
    this.config = netConfig(pairs);
    this.pairs = Array.from({ length: pairs }, () => ({
      receive: undefined,
      transmit: undefined,
      waiting: false,
      large: false,
    }));
  }

  startQueue(running: RunningQueue): void {
    const { index, queue } = running;
    const end = makeEnd(running);
    queue.disableNotifications();
    const pair = this.pairs[index >> 1];
    if ((index & 1) === RECEIVE) pair.receive = end;
    else pair.transmit = end;
  }

  stopQueue(index: number): void {
    const pair = this.pairs[index >> 1];
    const which = (index & 1) === RECEIVE ? 'receive' : 'transmit';
    pair[which]?.elements.free();
    pair[which] = undefined;
    pair.waiting = false;
    pair.large = false;
  }

  service(): boolean {
    if (this.armed) this.disarm();
    let busy = false;
    for (const pair of this.pairs) if (this.echo(pair)) busy = true;
    return busy;
  }

  arm(): boolean {
    this.armed = true;
    let idle = true;
    for (const { receive, transmit, waiting } of this.pairs) {
      if (receive === undefined || transmit === undefined) continue;
      if (!(waiting ? receive : transmit).queue.enableNotifications()) idle = false;
    }
    return idle;
  }

  private disarm(): void {
    this.armed = false;
    for (const { receive, transmit } of this.pairs) {
      receive?.queue.disableNotifications();
      transmit?.queue.disableNotifications();
    }
  }

  /** One burst. @returns whether there may be more to do at once */
  private echo(pair: Pair): boolean {
    const { receive, transmit } = pair;
    if (receive === undefined || transmit === undefined) return false;
    const sent = transmit.queue.popBurst(transmit.elements);
    pair.waiting = false;
    if (sent === 0) return false;
    // A frame takes one buffer, unless experience says otherwise.
    const wanted = pair.large ? most(receive) : sent;
    const room = receive.queue.popBurst(receive.elements, wanted);
    // Frames of the usual kind take a buffer each.
    let frames = this.straight(transmit, receive, Math.min(sent, room));
    let used = frames;
    for (; frames < sent; frames++) {
      const took = this.move(transmit, frames, receive, used, room - used);
      if (took === WAIT) break;
      if (took > 0) this.counts.frames++;
      else this.counts.dropped++;
      used += took;
    }
    // What was not used goes back to where it was.
    if (used < room) putBack(receive.queue, room - used);
    if (frames < sent) {
      putBack(transmit.queue, sent - frames);
      pair.waiting = room < wanted;
    }
    pair.large = frames < sent && room === wanted;
    if (used > 0) receive.queue.pushBurst(receive.elements, used);
    if (frames > 0) transmit.queue.pushBurst(transmit.elements, frames);
    return frames > 0 || pair.large;
  }

  /**
   * Moves frames that are one piece here and fit the first piece of a buffer there, up to the first that is not.
   * @returns how many
   */
  private straight(from: End, to: End, count: number): number {
    const source = from.elements.words;
    const sourcePieces = from.elements.pieceWords;
    const target = to.elements.words;
    const targetPieces = to.elements.pieceWords;
    const { copier } = to;
    const { u32 } = copier;
    // The frames were written by another processor. One look at each, and they are all on their way.
    let seen = 0;
    for (let i = 0; i < count; i++) seen |= u32[sourcePieces[source[i * 4 + 1] * 2] >>> 2];
    this.seen = seen;
    let bytes = 0;
    let i = 0;
    for (; i < count; i++) {
      const first = source[i * 4 + 1] * 2;
      const length = sourcePieces[first + 1];
      const counts = target[i * 4 + 2];
      const into = (target[i * 4 + 1] + (counts & 0xffff)) * 2;
      if ((source[i * 4 + 2] & 0xffff) !== 1 || length <= NET_HEADER) break;
      if (counts >>> 16 === 0 || targetPieces[into + 1] < length) break;
      const address = targetPieces[into];
      copier.netHeader(address, 1);
      copier.copy(address + NET_HEADER, sourcePieces[first] + NET_HEADER, length - NET_HEADER);
      target[i * 4 + 3] = length;
      bytes += length - NET_HEADER;
    }
    this.counts.frames += i;
    this.counts.bytes += bytes;
    return i;
  }

  /**
   * Moves frame `i`, of any number of pieces, into receive buffers from `first` on.
   * @returns how many buffers it took; 0 if it was dropped; WAIT if `room` buffers are not enough
   */
  private move(from: End, i: number, to: End, first: number, room: number): number {
    const cursor = readable(from.elements, i);
    const bytes = cursor.left - NET_HEADER;
    if (bytes <= 0) return 0;
    cursor.skip(NET_HEADER);
    const took = place(to, first, room, bytes, (into, share) => into.copy(to.copier, cursor, share));
    if (took > 0) this.counts.bytes += bytes;
    return took;
  }
}
