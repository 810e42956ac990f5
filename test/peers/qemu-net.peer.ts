import { expect } from 'chai';
import { NetFeature } from '../../src/index.js';
import { Random } from '../fuzz/prng.js';
import { forEachEngine } from '../support/engines.js';
import { describeVariant, VARIANTS, variantFeatures } from '../support/qemu/guest.js';
import { NetTraffic, withNet } from '../support/qemu/net.js';

const NETWORK_DEVICE = 1;
const RECEIVE = 0;
const TRANSMIT = 1;
const SEED = Number(process.env.SEED ?? 1);

/** Frames that are sent one at a time. */
const ALONE = 25;

/** Sizes with many laps: receive rings with room for a little more than the longest frame. */
const SMALL = { split: 8, packed: 7 };
const ODD = { split: 16, packed: 11 };

describe('QEMU virtio-net', () => {
  forEachEngine((load) => {
    for (const variant of VARIANTS)
      it(describeVariant(variant), () =>
        withNet(load, async (guest, echo) => {
          const { device } = guest;
          expect(device.deviceId).to.equal(NETWORK_DEVICE);
          const features = [...variantFeatures(variant), NetFeature.MRG_RXBUF, NetFeature.MAC];
          const random = new Random(SEED);
          let moved = 0;
          let frames = 0;
          const interrupts = [0, 0];

          const session = async (size: number, count: number, later?: number) => {
            expect([...(await device.negotiate(features))]).to.have.members(features);
            const mac = await device.readConfig([
              { offset: 0, width: 1 },
              { offset: 5, width: 1 },
            ]);
            expect(mac).to.deep.equal([0x52, 0x56]);
            const receive = await guest.queue(RECEIVE, size, 1);
            const transmit = await guest.queue(TRANSMIT, size, 2);
            const traffic = new NetTraffic(guest, receive, transmit, random);
            await device.start();
            await traffic.fill();
            await traffic.runByInterrupt(ALONE);
            expect(receive.interrupt.seen, 'receive interrupts').to.equal(ALONE);
            expect(transmit.interrupt.seen, 'transmit interrupts').to.equal(ALONE);
            await traffic.run(count);
            if (later !== undefined) {
              // Receive buffers are with the device, and come back by the reset of their queue.
              expect(await transmit.resize(later, 2)).to.deep.equal([]);
              traffic.takeBack(await receive.resize(later, 1));
              await traffic.fill();
              await traffic.run(count);
            }
            expect(traffic.received).to.equal(traffic.sent);
            expect(traffic.received).to.equal(ALONE + (later === undefined ? count : 2 * count));
            expect(traffic.mergedMost, 'buffers of the longest frame').to.equal(3);
            await device.reset();
            expect(transmit.driver.reset()).to.deep.equal([]);
            traffic.takeBack(receive.driver.reset());
            for (const { driver } of [receive, transmit]) {
              expect(driver.inFlight).to.equal(0);
              expect(driver.tableBytes).to.equal(0);
              expect(driver.numFree).to.equal(driver.size);
            }
            moved += traffic.sent + traffic.buffers;
            frames += traffic.received;
            interrupts[RECEIVE] += receive.interrupt.seen;
            interrupts[TRANSMIT] += transmit.interrupt.seen;
            traffic.release();
            receive.release();
            transmit.release();
          };
          await session(256, 300);
          await session(SMALL[variant.ring], 150, ODD[variant.ring]);
          expect(echo.frames).to.equal(frames);
          console.log(
            `        ${moved} buffers, ${frames} frames there and back, interrupts seen: ${interrupts[RECEIVE]} receive, ${interrupts[TRANSMIT]} transmit, seed ${SEED}`,
          );
        }),
      );
  });
});
