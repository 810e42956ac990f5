import { expect } from 'chai';
import { Feature } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import { advance, DESC, PackedRing, WRAP } from '../support/packed-ring.js';
import { EVENT_IDX } from '../support/stage.js';

/** A hundred thousand times: chai would take most of the time. */
function check(what: string, actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`${what}: ${actual}, expected ${expected}`);
}

describe('case 12: slots and counts go from 65535 to 0', () => {
  forEachEngine((load) => {
    for (const size of [1, 2, 256, 32768])
      for (const features of [EVENT_IDX, [...EVENT_IDX, Feature.IN_ORDER]])
        it(`in a packed queue of ${size}, features ${features}`, async () => {
          const host = await load({ size: 2 ** 23 });
          const driver = host.driverQueue({ ring: 'packed', size, features });
          const { areas } = driver;
          const device = host.deviceQueue({ ring: 'packed', size, features, areas });
          const ring = new PackedRing(host, areas, size);
          driver.disableCallbacks();
          driver.enableCallbacks();
          device.disableNotifications();
          device.enableNotifications();
          const most = Math.min(size, 4096);
          const burst = driver.createBurst(most, most);
          const elements = device.createElements(most);
          const completions = driver.createCompletions(most);
          const buffer = host.alloc(64);
          const total = 65536 + 3;

          let token = 0;
          let position = WRAP;
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
            position = advance(position, n, size);
            check('position', driver.notificationData(0) >>> 16, position);
          }
          expect(driver.numFree).to.equal(size);
          expect(device.inFlight).to.equal(0);
          expect(driver.stats()).to.include({ added: total, completed: total });
          expect(device.stats()).to.include({ added: total, completed: total });
          expect(ring.driverEvent).to.deep.equal({ offWrap: position, flags: DESC });
          expect(ring.deviceEvent).to.deep.equal({ offWrap: position, flags: DESC });
        });

    it('more than 65535 buffers without a kick or an interrupt: both are due', async () => {
      const host = await load({ size: 2 ** 20 });
      const options = { ring: 'packed' as const, size: 3, features: EVENT_IDX };
      const driver = host.driverQueue(options);
      const device = host.deviceQueue({ ...options, areas: driver.areas });
      driver.disableCallbacks();
      driver.enableCallbacks();
      device.disableNotifications();
      device.enableNotifications();
      const buffer = [{ address: host.alloc(64), length: 64 }];
      for (let i = 0; i < 65540; i++) {
        driver.add(buffer, [], i);
        device.push({ id: device.pop()?.id as number }, 0);
        driver.getBuf();
      }
      expect(driver.kickPrepare()).to.equal(true);
      expect(device.shouldInterrupt()).to.equal(true);
      expect(driver.kickPrepare()).to.equal(false);
      expect(device.shouldInterrupt()).to.equal(false);
    });
  });
});
