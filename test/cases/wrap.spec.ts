import { expect } from 'chai';
import { forEachEngine } from '../support/engines.js';
import { SplitRing } from '../support/split-ring.js';
import { EVENT_IDX } from '../support/stage.js';

/** A hundred thousand times: chai would take most of the time. */
function check(what: string, actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`${what}: ${actual}, expected ${expected}`);
}

describe('case 12: indices go from 65535 to 0', () => {
  forEachEngine((load) => {
    for (const size of [1, 2, 256, 32768])
      for (const features of [[], EVENT_IDX])
        it(`in a queue of ${size}${features.length > 0 ? ' with EVENT_IDX' : ''}`, async () => {
          const host = await load({ size: 2 ** 23 });
          const driver = host.driverQueue({ ring: 'split', size, features });
          const { areas } = driver;
          const device = host.deviceQueue({ ring: 'split', size, features, areas });
          const ring = new SplitRing(host, areas, size);
          const most = Math.min(size, 4096);
          const burst = driver.createBurst(most, most);
          const elements = device.createElements(most);
          const completions = driver.createCompletions(most);
          const buffer = host.alloc(64);
          const total = 65536 + 3;

          let token = 0;
          while (token < total) {
            // Not always the same number, so that the wrap falls into a burst, and between two.
            const n = Math.min(most, total - token, 1 + ((token * 7) % most));
            for (let i = 0; i < n; i++) {
              if (i % 2 === 0) burst.out(buffer, 64).end(token + i);
              else burst.in(buffer, 64).end(token + i);
            }
            check('added', driver.addBurst(burst), n);
            check('kick', driver.kickPrepare(), true);
            check('popped', device.popBurst(elements), n);
            for (let i = 1; i < n; i += 2) elements.setWritten(i, 1 + (i % 64));
            check('pushed', device.pushBurst(elements), n);
            check('interrupt', device.shouldInterrupt(), true);
            check('got', driver.getBurst(completions), n);
            for (let i = 0; i < n; i++) {
              check('token', completions.token(i), token + i);
              check('length', completions.length(i), (i % 2) * (1 + (i % 64)));
            }
            token += n;
          }
          expect([ring.availIdx, ring.usedIdx]).to.deep.equal([3, 3]);
          expect(driver.numFree).to.equal(size);
          expect(device.inFlight).to.equal(0);
          expect(driver.stats()).to.include({ added: total, completed: total });
          expect(device.stats()).to.include({ added: total, completed: total });
          if (features.length > 0) expect([ring.usedEvent, ring.availEvent]).to.deep.equal([3, 3]);
        });

    for (const [count, event, wanted] of [
      [65535, 65534, true],
      [65535, 0, true],
      // The one index that 65535 entries did not pass.
      [65535, 65535, false],
      // After 65536 entries and more there is none.
      [65536, 65535, true],
      [65536, 0x1234, true],
      [65537, 0, true],
      [131072, 65535, true],
    ] as const)
      it(`event ${event} ${wanted ? 'was' : 'was not'} passed by ${count} entries at once`, async () => {
        const host = await load({ size: 2 ** 20 });
        const options = { ring: 'split', size: 256, features: EVENT_IDX } as const;
        const driver = host.driverQueue(options);
        const device = host.deviceQueue({ ...options, areas: driver.areas });
        const burst = driver.createBurst(256, 256);
        const elements = device.createElements(256);
        const completions = driver.createCompletions(256);
        for (let left = count; left > 0; ) {
          const n = Math.min(left, 256);
          for (let i = 0; i < n; i++) burst.out(64, 1).end(i);
          check('added', driver.addBurst(burst), n);
          check('popped', device.popBurst(elements), n);
          check('pushed', device.pushBurst(elements), n);
          check('got', driver.getBurst(completions), n);
          left -= n;
        }
        const ring = new SplitRing(host, driver.areas, 256);
        ring.availEvent = event;
        ring.usedEvent = event;
        expect(driver.kickPrepare()).to.equal(wanted);
        expect(device.shouldInterrupt()).to.equal(wanted);
        // Once: nothing was added or pushed since.
        ring.availEvent = (ring.availIdx - 1) & 0xffff;
        ring.usedEvent = (ring.usedIdx - 1) & 0xffff;
        expect(driver.kickPrepare()).to.equal(false);
        expect(device.shouldInterrupt()).to.equal(false);
      });

    it('the ring is full across the wrap', async () => {
      const host = await load({ size: 2 ** 20 });
      const driver = host.driverQueue({ ring: 'split', size: 4, features: EVENT_IDX });
      const { areas } = driver;
      const device = host.deviceQueue({ ring: 'split', size: 4, features: EVENT_IDX, areas });
      const ring = new SplitRing(host, areas, 4);
      const buffer = [{ address: host.alloc(64), length: 64 }];
      for (let i = 0; i < 65534; i++) {
        driver.add(buffer, [], i);
        device.push({ id: device.pop()?.id as number }, 0);
        driver.getBuf();
      }
      for (let i = 0; i < 4; i++) expect(driver.add(buffer, [], i)).to.equal(true);
      expect(driver.add(buffer, [], 4)).to.equal(false);
      expect(ring.availIdx).to.equal(2);
      const elements = device.createElements(8);
      expect(device.popBurst(elements)).to.equal(4);
      // Back across the wrap, and forth.
      expect(device.rewind(3)).to.equal(true);
      expect(device.popBurst(elements)).to.equal(3);
      const last = elements.id(2);
      device.unpop({ id: last });
      expect(device.pop()?.id).to.equal(last);
      // Slots on both sides of the wrap, in any order.
      const ids = [0, 1, 2, 3].map((i) => ring.availRing(65534 + i));
      for (const i of [2, 0, 3, 1]) device.fill({ id: ids[i] }, 0, i);
      expect(ring.usedIdx).to.equal(65534);
      device.flush(3);
      expect(ring.usedIdx).to.equal(1);
      device.flush(1);
      expect(ring.usedIdx).to.equal(2);
      for (let i = 0; i < 4; i++) expect(driver.getBuf()?.token).to.equal(i);
      expect(driver.numFree).to.equal(4);
    });
  });
});
