// What the device status allows the two sides to do with their queues (virtio 1.4, 2.1, 2.4, 2.6.1, 3.1,
// 3.4). Status and queues know nothing of each other: who joins them, a transport or an emulator, asks
// `live` and `suspending`. The two sides below do that and nothing else; what came of it is read from the
// bytes of the ring.

import { expect } from 'chai';
import {
  type DeviceQueue,
  type DriverQueue,
  type Element,
  Feature,
  type Host,
  VringError,
} from '../src/index.js';
import { Negotiation } from '../src/negotiation.js';
import { DeviceStatus, Status } from '../src/status.js';
import { forEachEngine } from './support/engines.js';
import { SplitRing } from './support/split-ring.js';

const { ACKNOWLEDGE, DRIVER, DRIVER_OK, FEATURES_OK, SUSPEND, DEVICE_NEEDS_RESET } = Status;
const FEATURES = [Feature.VERSION_1, Feature.SUSPEND];

/** A driver that does with its queue what the status allows. */
class Front {
  constructor(
    readonly status: DeviceStatus,
    readonly queue: DriverQueue,
    readonly address: number,
  ) {}

  /** Makes a buffer available; returns whether it could. */
  send(token: number): boolean {
    if (this.status.suspending || this.status.has(SUSPEND)) return false;
    return this.queue.add(
      [{ address: this.address, length: 4 }],
      [{ address: this.address, length: 4 }],
      token,
    );
  }

  kick(): boolean {
    return this.status.live && !this.status.suspending && this.queue.kick();
  }
}

/** A device that does with its queue what the status allows, and keeps what it took until told to finish. */
class Back {
  readonly taken: Element[] = [];

  constructor(
    readonly status: DeviceStatus,
    readonly queue: DeviceQueue,
  ) {}

  take(): void {
    try {
      while (this.status.live && !this.status.suspending) {
        const element = this.queue.pop();
        if (element === undefined) break;
        this.taken.push(element);
      }
    } catch (error) {
      if (!(error instanceof VringError)) throw error;
      this.status.needsReset();
    }
  }

  finish(): void {
    for (const element of this.taken.splice(0)) if (this.status.live) this.queue.push(element, 4);
  }
}

function connect(engine: Host, size = 8) {
  const counts = { kicks: 0, interrupts: 0, changes: 0 };
  const negotiation = Negotiation.offer(FEATURES);
  const status = new DeviceStatus(negotiation, { notifyConfigChange: () => counts.changes++ });
  const driver = engine.driverQueue({ ring: 'split', size, notify: () => counts.kicks++ });
  const device = engine.deviceQueue({
    ring: 'split',
    size,
    areas: driver.areas,
    interrupt: () => counts.interrupts++,
  });
  const ring = new SplitRing(engine, driver.areas, size);
  const front = new Front(status, driver, engine.alloc(16));
  return { counts, negotiation, status, driver, device, ring, front, back: new Back(status, device) };
}

type Connected = ReturnType<typeof connect>;

function initialize({ status, negotiation }: Connected): void {
  status.write(ACKNOWLEDGE);
  status.write(ACKNOWLEDGE | DRIVER);
  negotiation.accept(FEATURES);
  status.write(status.value | FEATURES_OK);
  status.write(status.value | DRIVER_OK);
  expect(status.live).to.equal(true);
}

forEachEngine((load) => {
  describe('life of a queue', () => {
    /** Calls `look` at every step of the initialization before DRIVER_OK. */
    function beforeDriverOk(pair: Connected, look: (step: string) => void): void {
      const { status, negotiation } = pair;
      look('0');
      for (const bit of [ACKNOWLEDGE, DRIVER, FEATURES_OK]) {
        if (bit === FEATURES_OK) negotiation.accept(FEATURES);
        status.write(status.value | bit);
        look(Status[bit]);
      }
    }

    it('sees no device before DRIVER_OK [status-device-before-driver-ok]', async () => {
      const pair = connect(await load());
      const { front, back, ring, counts, status } = pair;
      expect(front.send(1)).to.equal(true);
      const before = ring.deviceBytes;
      beforeDriverOk(pair, (step) => {
        back.take();
        back.finish();
        expect(back.queue.inFlight, step).to.equal(0);
        expect(ring.deviceBytes, step).to.deep.equal(before);
        expect(counts.interrupts, step).to.equal(0);
      });
      status.write(status.value | DRIVER_OK);
      back.take();
      back.finish();
      expect(ring.usedIdx).to.equal(1);
      expect(counts.interrupts).to.equal(1);
    });

    it('can be filled before DRIVER_OK, without a notification [init-driver-no-notification]', async () => {
      const pair = connect(await load());
      const { front, ring, counts, status } = pair;
      beforeDriverOk(pair, (step) => {
        expect(front.send(1)).to.equal(true);
        expect(front.kick(), step).to.equal(false);
        expect(counts.kicks, step).to.equal(0);
      });
      expect(ring.availIdx).to.equal(4);
      status.write(status.value | DRIVER_OK);
      expect(front.kick()).to.equal(true);
      expect(counts.kicks).to.equal(1);
    });

    it('makes DEVICE_NEEDS_RESET of a ring that is broken [status-device-needs-reset]', async () => {
      const pair = connect(await load());
      const { back, ring, counts, status, device } = pair;
      initialize(pair);
      ring.availIdx = 9;
      back.take();
      expect(device.broken).to.equal(true);
      expect(status.has(DEVICE_NEEDS_RESET)).to.equal(true);
      expect(counts.changes).to.equal(1);
      // And works again after the reset that this asks for.
      status.write(0);
      pair.driver.reset();
      device.reset();
      initialize(pair);
      pair.front.send(1);
      back.take();
      back.finish();
      expect(pair.driver.getBuf()).to.deep.equal({ token: 1, length: 4 });
    });

    it('is left alone by the device after a reset [reset-device-silent]', async () => {
      const pair = connect(await load());
      const { front, back, ring, counts, status, device } = pair;
      initialize(pair);
      front.send(1);
      front.send(2);
      back.take();
      expect(device.inFlight).to.equal(2);
      status.write(0);
      const before = ring.deviceBytes;
      front.send(3);
      back.take();
      back.finish();
      expect(ring.deviceBytes).to.deep.equal(before);
      expect(counts.interrupts).to.equal(0);
      beforeDriverOk(pair, (step) => {
        back.take();
        expect(ring.deviceBytes, step).to.deep.equal(before);
        expect(counts.interrupts, step).to.equal(0);
      });
    });

    it('gets no buffer while suspended [suspend-driver-no-buffers]', async () => {
      const pair = connect(await load());
      const { front, back, ring, status } = pair;
      initialize(pair);
      front.send(1);
      back.take();
      status.suspend();
      expect(front.send(2)).to.equal(false);
      back.finish();
      status.suspended();
      expect(front.send(2)).to.equal(false);
      status.resume();
      expect(front.send(2)).to.equal(false);
      expect(ring.availIdx).to.equal(1);
      status.resumed();
      expect(front.send(2)).to.equal(true);
      expect(ring.availIdx).to.equal(2);
    });

    it('gets no available buffer notification while suspended [suspend-driver-no-notification]', async () => {
      const pair = connect(await load());
      const { front, back, counts, status } = pair;
      initialize(pair);
      front.send(1);
      status.suspend();
      expect(front.kick()).to.equal(false);
      back.finish();
      status.suspended();
      expect(front.kick()).to.equal(false);
      status.resume();
      expect(front.kick()).to.equal(false);
      expect(counts.kicks).to.equal(0);
      status.resumed();
      expect(front.kick()).to.equal(true);
      expect(counts.kicks).to.equal(1);
    });

    it('is drained before SUSPEND shows [suspend-device-drains]', async () => {
      const pair = connect(await load());
      const { front, back, ring, counts, status } = pair;
      initialize(pair);
      front.send(1);
      back.take();
      front.send(2);
      status.suspend();
      // No more is consumed, what was begun is used, the driver is told.
      back.take();
      expect(back.taken).to.have.lengthOf(1);
      back.finish();
      expect(ring.usedIdx).to.equal(1);
      expect(counts.interrupts).to.equal(1);
      expect(status.has(SUSPEND)).to.equal(false);
      status.suspended();
      expect(status.has(SUSPEND)).to.equal(true);
      expect(pair.driver.getBuf()?.token).to.equal(1);
      // The other buffer is found after resuming.
      status.resume();
      status.resumed();
      back.take();
      back.finish();
      expect(pair.driver.getBuf()?.token).to.equal(2);
    });

    it('is left alone by the device while suspended [suspend-device-idle]', async () => {
      const pair = connect(await load());
      const { front, back, ring, counts, status } = pair;
      initialize(pair);
      front.send(1);
      front.send(2);
      status.suspend();
      status.suspended();
      const before = [ring.deviceBytes, ring.driverBytes, ring.descriptorBytes];
      for (const step of ['suspended', 'resuming']) {
        back.take();
        back.finish();
        expect([ring.deviceBytes, ring.driverBytes, ring.descriptorBytes], step).to.deep.equal(before);
        expect(back.queue.inFlight, step).to.equal(0);
        if (step === 'suspended') status.resume();
      }
      expect(counts.interrupts).to.equal(0);
      status.resumed();
      back.take();
      back.finish();
      expect(ring.usedIdx).to.equal(2);
    });

    it('serves nothing of before its reset [reset-device-queue-silent]', async () => {
      const pair = connect(await load());
      const { front, back, ring, counts, driver, device } = pair;
      initialize(pair);
      for (const token of [1, 2, 3]) front.send(token);
      const first = device.pop() as Element;
      const second = device.pop() as Element;
      device.push(first, 0);
      expect(counts.interrupts).to.equal(1);
      device.reset();
      driver.reset();
      const before = ring.deviceBytes;
      expect(device.inFlight).to.equal(0);
      expect(device.pop()).to.equal(undefined);
      for (const element of [first, second]) {
        expect(() => device.push(element, 0)).to.throw(VringError, 'not in flight');
        expect(() => device.unpop(element)).to.throw(VringError);
      }
      expect(device.rewind(1)).to.equal(false);
      expect(device.shouldInterrupt()).to.equal(false);
      back.take();
      back.finish();
      expect(ring.deviceBytes).to.deep.equal(before);
      expect(counts.interrupts).to.equal(1);
    });

    it('is as new after its reset [reset-device-queue-state] [reset-driver-queue-config]', async () => {
      for (const features of [[], [Feature.EVENT_IDX, Feature.INDIRECT_DESC]]) {
        const engine = await load();
        const driver = engine.driverQueue({ ring: 'split', size: 8, features });
        const device = engine.deviceQueue({ ring: 'split', size: 8, features, areas: driver.areas });
        const ring = new SplitRing(engine, driver.areas, 8);
        const address = engine.alloc(64);
        /** The same work, and everything that can be seen of it. */
        const work = (count: number) => {
          const saw: unknown[] = [driver.numFree, driver.inFlight, device.inFlight];
          for (let token = 0; token < count; token++) {
            saw.push(
              driver.add([{ address, length: 4 }], [{ address, length: 4 }], token),
              driver.kickPrepare(),
            );
            const element = device.pop() as Element;
            saw.push(element);
            // Every third stays in flight.
            if (token % 3 === 2) continue;
            device.push(element, 3);
            saw.push(device.shouldInterrupt(), driver.getBuf());
          }
          saw.push(ring.deviceBytes, ring.driverBytes);
          return saw;
        };
        const first = work(7);
        device.disableNotifications();
        driver.disableCallbacks();
        ring.availIdx += 100;
        expect(() => device.pop()).to.throw(VringError);
        expect(device.broken).to.equal(true);
        device.reset();
        expect(driver.reset()).to.have.members([2, 5]);
        expect(device.broken).to.equal(false);
        expect(device.fault).to.equal(undefined);
        for (const bytes of [ring.descriptorBytes, ring.driverBytes, ring.deviceBytes]) {
          expect(bytes.every((byte) => byte === 0)).to.equal(true);
        }
        expect(work(7)).to.deep.equal(first);
      }
    });

    it('can come back with another size and other features [reset-device-queue-config]', async () => {
      const engine = await load();
      const used = engine.used;
      for (const [size, features] of [
        [8, []],
        [2, [Feature.EVENT_IDX]],
        [256, [Feature.INDIRECT_DESC]],
      ] as const) {
        const driver = engine.driverQueue({ ring: 'split', size, features });
        const device = engine.deviceQueue({ ring: 'split', size, features, areas: driver.areas });
        const address = 16;
        for (let token = 0; token < size; token++) {
          expect(driver.add([{ address, length: 1 }], [], token)).to.equal(true);
        }
        expect(driver.add([{ address, length: 1 }], [], size)).to.equal(false);
        const tokens = [];
        for (let element = device.pop(); element !== undefined; element = device.pop())
          device.push(element, 0);
        for (let back = driver.getBuf(); back !== undefined; back = driver.getBuf()) tokens.push(back.token);
        expect(tokens).to.have.lengthOf(size);
        device.release();
        driver.release();
        expect(engine.used).to.equal(used);
      }
    });
  });
});
