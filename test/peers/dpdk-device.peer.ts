import { expect } from 'chai';
import { Testpmd } from '../../bench/dpdk/testpmd.js';
import { type DriverQueue, Feature, type Host } from '../../src/index.js';
import { NET_HEADER } from '../../src/vhost-user/devices/net.js';
import { Frontend } from '../../src/vhost-user/frontend.js';
import { DEADLINE_MS, FRAMES, prepareDpdk } from './dpdk.js';
import { checkFrame, writeFrame } from './frames.js';

const MAX = 1514;
const BUFFER = 2048;
const SIZE = 256;
const WINDOW = 64;

/** Sends numbered frames and wants each of them back, in order. */
class Traffic {
  sent = 0;
  returned = 0;
  private inTransmit = 0;
  private readonly u8: Uint8Array;
  private readonly receiveBuffers: number;
  private readonly transmitBuffers: number;

  constructor(
    frontend: Frontend,
    engine: Host,
    private readonly receive: DriverQueue,
    private readonly transmit: DriverQueue,
  ) {
    this.u8 = new Uint8Array(engine.buffer);
    this.receiveBuffers = frontend.alloc(SIZE * BUFFER, 64);
    this.transmitBuffers = frontend.alloc(WINDOW * BUFFER, 64);
    for (let i = 0; i < SIZE; i++) this.post(i);
    receive.kick();
  }

  private post(i: number): void {
    if (!this.receive.add([], [{ address: this.receiveBuffers + i * BUFFER, length: BUFFER }], i))
      throw new Error('no room for a receive buffer');
  }

  /** @returns whether anything moved */
  turn(): boolean {
    const before = this.sent + this.returned + this.inTransmit;
    for (let done = this.transmit.getBuf(); done !== undefined; done = this.transmit.getBuf())
      this.inTransmit--;
    while (this.sent < FRAMES && this.sent - this.returned < WINDOW && this.inTransmit < WINDOW) {
      const address = this.transmitBuffers + (this.sent % WINDOW) * BUFFER;
      this.u8.fill(0, address, address + NET_HEADER);
      const length = writeFrame(this.u8, address + NET_HEADER, this.sent, MAX);
      if (!this.transmit.add([{ address, length: NET_HEADER + length }], [], this.sent % WINDOW)) break;
      this.sent++;
      this.inTransmit++;
    }
    this.transmit.kick();
    for (let got = this.receive.getBuf(); got !== undefined; got = this.receive.getBuf()) {
      const address = this.receiveBuffers + got.token * BUFFER;
      checkFrame(this.u8.subarray(address + NET_HEADER, address + got.length), this.returned, MAX);
      this.returned++;
      this.post(got.token);
    }
    this.receive.kick();
    return before !== this.sent + this.returned + this.inTransmit;
  }

  async run(until: () => boolean): Promise<void> {
    const end = Date.now() + DEADLINE_MS;
    while (!until()) {
      if (Date.now() > end) throw new Error(`${this.sent} frames sent, ${this.returned} came back`);
      for (let i = 0; i < 32; i++) this.turn();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

describe("our driver on DPDK's device", function () {
  this.timeout(240_000);

  const place = prepareDpdk(1 << 26);

  const features = [Feature.VERSION_1, Feature.INDIRECT_DESC];

  for (const packed of [false, true])
    it(packed ? 'packed' : 'split', async () => {
      const { engine, socket } = place;
      const testpmd = await Testpmd.start(`net_vhost0,iface=${socket},queues=1`);
      try {
        const frontend = await Frontend.connect({
          engine,
          socket,
          memory: 1 << 22,
          features: packed ? [...features, Feature.RING_PACKED] : features,
        });
        const receive = await frontend.startQueue({ index: 0, size: SIZE });
        const transmit = await frontend.startQueue({ index: 1, size: SIZE });
        expect(receive.ring).to.equal(packed ? 'packed' : 'split');
        await testpmd.command('start');
        const traffic = new Traffic(frontend, engine, receive, transmit);
        await traffic.run(() => traffic.returned === FRAMES && transmit.inFlight === 0);
        await testpmd.command('stop');
        const { received, sent } = await testpmd.packets();
        expect({ received, sent }).to.deep.equal({ received: FRAMES, sent: FRAMES });
        expect(await frontend.stopQueue(1)).to.deep.equal([]);
        expect((await frontend.stopQueue(0)).length).to.equal(SIZE);
        frontend.close();
      } finally {
        await testpmd.quit();
      }
      expect(engine.used).to.equal(0);
      console.log(`      ${2 * FRAMES} buffers, ${FRAMES} frames of up to ${MAX} bytes`);
    });
});
