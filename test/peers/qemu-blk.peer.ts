import { expect } from 'chai';
import { Random } from '../fuzz/prng.js';
import { forEachEngine } from '../support/engines.js';
import { DiskTraffic, SEGMENTS_MAX, withDisk } from '../support/qemu/disk.js';
import { describeVariant, VARIANTS, variantFeatures } from '../support/qemu/guest.js';

const BLOCK_DEVICE = 2;
const VECTOR = 1;
const SEED = Number(process.env.SEED ?? 1);

/** Requests that are made one at a time. */
const ALONE = 25;

/** Sizes with many laps: a ring that takes one chain of the longest kind, and a little more. */
const SMALL = { split: 8, packed: SEGMENTS_MAX };
const ODD = { split: 16, packed: 7 };

describe('QEMU virtio-blk', () => {
  forEachEngine((load) => {
    for (const variant of VARIANTS)
      it(describeVariant(variant), () =>
        withDisk(load, new Random(SEED), async (guest, disk) => {
          const { device } = guest;
          expect(device.deviceId).to.equal(BLOCK_DEVICE);
          expect(await device.readConfig([{ offset: 0, width: 4 }])).to.deep.equal([disk.sectors]);
          const features = variantFeatures(variant);
          let moved = 0;
          let interrupts = 0;

          const session = async (size: number, requests: number, later?: number) => {
            expect([...(await device.negotiate(features))]).to.have.members(features);
            const queue = await guest.queue(0, size, VECTOR);
            const traffic = new DiskTraffic(guest, queue, disk);
            await device.start();
            await traffic.runByInterrupt(ALONE);
            expect(queue.interrupt.seen, 'interrupts').to.equal(ALONE);
            await traffic.run(requests);
            if (later !== undefined) {
              // The queue alone, with another size; the device keeps running.
              expect(await queue.resize(later, VECTOR)).to.deep.equal([]);
              await traffic.run(requests);
            }
            expect(traffic.done).to.equal(ALONE + (later === undefined ? requests : 2 * requests));
            expect(traffic.inFlight).to.deep.equal([]);
            expect(queue.driver.inFlight).to.equal(0);
            expect(queue.driver.tableBytes).to.equal(0);
            expect(queue.driver.numFree).to.equal(queue.driver.size);
            disk.check();
            await device.reset();
            expect(queue.driver.reset()).to.deep.equal([]);
            moved += traffic.done;
            interrupts += queue.interrupt.seen;
            traffic.release();
            queue.release();
          };
          await session(256, 600);
          await session(SMALL[variant.ring], 400, ODD[variant.ring]);
          console.log(`        ${moved} buffers, ${interrupts} interrupts seen, seed ${SEED}`);
        }),
      );
  });
});
