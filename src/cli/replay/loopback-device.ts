import type { DeviceQueue, Elements, Host } from '../../index.js';
import { setNumBuffers } from './net-header.js';

/**
 * A net device whose cable leads back to itself: what is transmitted is received. It knows the two queues
 * and guest memory, nothing else.
 */
export class LoopbackDevice {
  protected readonly u8: Uint8Array;
  protected readonly sent: Elements;
  protected readonly received: Elements;

  constructor(
    engine: Host,
    readonly transmit: DeviceQueue,
    readonly receive: DeviceQueue,
    burst: number,
    segments: number,
  ) {
    this.u8 = new Uint8Array(engine.buffer);
    this.sent = transmit.createElements(burst, burst * segments);
    this.received = receive.createElements(burst, burst * segments);
    // It looks for receive buffers when it has a packet, and never waits for one.
    receive.disableNotifications();
  }

  /** What a notification of the transmit queue starts: works until nothing is left. */
  run(): void {
    const { transmit } = this;
    transmit.disableNotifications();
    do {
      while (this.forward() > 0);
    } while (!transmit.enableNotifications());
  }

  /** @returns how many packets went through */
  private forward(): number {
    const { transmit, receive, sent, received } = this;
    const got = transmit.popBurst(sent);
    if (got === 0) return 0;
    const room = receive.popBurst(received, got);
    // The driver never sends more than there are receive buffers; a packet without one is lost, as on a
    // real device, and the driver will miss it.
    for (let i = 0; i < room; i++) received.setWritten(i, this.copy(i));
    transmit.pushBurst(sent);
    receive.pushBurst(received);
    return got;
  }

  /** Copies packet `i` into receive buffer `i`. @returns its bytes */
  protected copy(i: number): number {
    const { sent, received, u8 } = this;
    let from = sent.first(i);
    let to = received.first(i);
    const endFrom = from + sent.outCount(i);
    const endTo = to + received.inCount(i);
    const header = received.address(to);
    let source = sent.address(from);
    let left = sent.length(from);
    let target = header;
    let room = received.length(to);
    let written = 0;
    for (;;) {
      const n = Math.min(left, room);
      u8.copyWithin(target, source, source + n);
      written += n;
      if (n === left) {
        if (++from === endFrom) break;
        source = sent.address(from);
        left = sent.length(from);
      } else {
        source += n;
        left -= n;
      }
      if (n === room) {
        if (++to === endTo) break;
        target = received.address(to);
        room = received.length(to);
      } else {
        target += n;
        room -= n;
      }
    }
    setNumBuffers(u8, header);
    return written;
  }
}
