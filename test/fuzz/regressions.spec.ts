// What the fuzzer found, each as small as it gets.

import { expect } from 'chai';
import { Feature, type Host, VringError } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';

const IN_ORDER = [Feature.VERSION_1, Feature.IN_ORDER];
const DATA = 0x8000;

const AVAIL = 0x80;
const USED = 0x8000;
const WRITE = 2;

interface Options {
  ring: 'split' | 'packed';
  size: number;
  features?: number[];
}

/** A driver and a device on one ring, and what a peer writes to it. */
class Pair {
  readonly driver;
  readonly device;
  readonly view: DataView;

  constructor(host: Host, { ring, size, features = [] }: Options) {
    this.driver = host.driverQueue({ ring, size, features });
    this.device = host.deviceQueue({ ring, size, features, areas: this.driver.areas });
    this.view = new DataView(host.buffer);
  }

  /** Adds buffers of one device-writable segment of four bytes. */
  add(...tokens: number[]): void {
    for (const token of tokens) this.driver.add([], [{ address: DATA, length: 4 }], token);
  }

  /** Descriptor of a packed ring. */
  describe(slot: number, length: number, id: number, flags: number): void {
    const at = this.driver.areas.descriptor + 16 * slot;
    this.view.setBigUint64(at, BigInt(DATA), true);
    this.view.setUint32(at + 8, length, true);
    this.view.setUint16(at + 12, id, true);
    this.view.setUint16(at + 14, flags, true);
  }
}

describe('found by fuzzing', () => {
  forEachEngine((load) => {
    const pair = async (options: Options) => new Pair(await load({ size: 2 ** 17 }), options);

    it('packed, in order: what is left of a batch is there when callbacks are enabled', async () => {
      const p = await pair({ ring: 'packed', size: 4, features: IN_ORDER });
      const { driver, device } = p;
      p.add(1, 2, 3);
      const elements = device.createElements(3);
      device.popBurst(elements);
      for (let i = 0; i < 3; i++) elements.setWritten(i, 4);
      device.pushBurst(elements);
      expect(driver.getBuf()).to.deep.equal({ token: 1, length: 4 });
      expect(driver.moreUsed()).to.equal(true);
      expect(driver.enableCallbacks()).to.equal(false);
      expect(driver.enableCallbacksDelayed()).to.equal(false);
      expect(driver.poll(driver.enableCallbacksPrepare())).to.equal(true);
      expect(driver.getBuf()?.token).to.equal(2);
      expect(driver.getBuf()?.token).to.equal(3);
      expect(driver.enableCallbacks()).to.equal(true);
    });

    for (const features of [[], IN_ORDER])
      it(`packed${features.length > 0 ? ', in order' : ''}: the length of a bad used descriptor is what stands there, also without WRITE`, async () => {
        const p = await pair({ ring: 'packed', size: 4, features });
        p.add(1);
        p.describe(0, 9, 1, AVAIL | USED);
        expect(() => p.driver.getBuf()).to.throw(VringError, 'used id 1 (length 9)');
      });

    it('split, in order: a batch that is refused is not counted as clamped', async () => {
      const p = await pair({ ring: 'split', size: 4, features: IN_ORDER });
      p.add(1, 2);
      const { device } = p.driver.areas;
      p.view.setUint32(device + 4, 1, true);
      p.view.setUint32(device + 8, 100, true);
      p.view.setUint16(device + 2, 1, true);
      expect(() => p.driver.getBuf()).to.throw(VringError, 'EPROTO');
      expect(p.driver.stats().clamped).to.equal(0);
    });

    for (const ring of ['split', 'packed'] as const)
      it(`${ring}, in order: an element does not take the place of a detached one with the same id`, async () => {
        const p = await pair({ ring, size: 4, features: IN_ORDER });
        p.add(1);
        expect(p.device.pop()?.id).to.equal(0);
        p.device.detach({ id: 0 });
        // The driver offers again what it has not got back.
        if (ring === 'packed') p.describe(1, 4, 0, AVAIL | WRITE);
        else {
          const { driver } = p.driver.areas;
          p.view.setUint16(driver + 4 + 2, 0, true);
          p.view.setUint16(driver + 2, 2, true);
        }
        expect(p.device.pop()?.id).to.equal(0);
        p.device.push({ id: 0 }, 4);
        expect(p.device.inFlight).to.equal(1);
        expect(p.device.stats().completed).to.equal(0);
        expect(p.driver.moreUsed()).to.equal(false);
      });

    for (const ring of ['split', 'packed'] as const)
      it(`${ring}: a driver's state with more between its positions than in flight is refused`, async () => {
        const p = await pair({ ring, size: 4 });
        p.add(1);
        const state = p.driver.save();
        state.avail += 1;
        expect(() => p.driver.restore(state)).to.throw(VringError, 'is 2 ahead of used');
      });

    it('packed: the slots of a detached element stay taken, also in a saved state', async () => {
      const p = await pair({ ring: 'packed', size: 2 });
      p.add(1, 2);
      p.device.pop();
      p.device.pop();
      p.device.detach({ id: 0 });
      // The driver offers a slot that was never used, in its next lap.
      p.describe(0, 4, 0, USED | WRITE);
      p.device.restore(p.device.save());
      expect(() => p.device.pop()).to.throw(VringError, 'does not fit beside the 2 slots that are in flight');
      p.driver.reset();
      p.device.reset();
      p.add(3);
      expect(p.device.pop()?.id).to.equal(0);
    });
  });
});
