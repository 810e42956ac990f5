import { expect } from 'chai';
import { Feature, type RingFormat } from '../src/index.js';
import { forEachEngine } from './support/engines.js';

const SIZE = 8;
/** Where the device finds the ring: out of the way of all else. */
const RING = 0x5000_0000;
// A carry between the words of an address, one from the highest bit, and a device that finds all lower.
const OFFSETS = [0x1_0000_0000n, 0xffff_f000n, 0xffff_ffff_0000_0000n, 0x1234_5678_9abc_d000n, -4096n];

describe('a device that finds the memory elsewhere', () => {
  forEachEngine((load) => {
    for (const ring of ['split', 'packed'] satisfies RingFormat[])
      for (const offset of OFFSETS)
        it(`${ring}: finds the indirect tables ${offset} bytes further on`, async () => {
          const host = await load();
          const features = [Feature.VERSION_1, Feature.INDIRECT_DESC];
          const local = host.alloc(8192, 4096);
          const tables = local + 4096;
          const guest = (address: number) => BigInt.asUintN(64, BigInt(address) + offset);
          const driver = host.driverQueue({
            ring,
            size: SIZE,
            features,
            addressOffset: offset,
            indirect: { memory: { address: tables, length: 512 } },
          });
          const device = host.deviceQueue({
            ring,
            size: SIZE,
            features,
            areas: { descriptor: RING, driver: RING + 4096, device: RING + 8192 },
            regions: [
              ...(['descriptor', 'driver', 'device'] as const).map((area, i) => ({
                guest: RING + i * 4096,
                length: 256,
                local: driver.areas[area],
              })),
              { guest: guest(local), length: 8192, local },
            ],
          });
          // Twice round the ring, so that tables are taken from places that were used before.
          for (let token = 0; token < 3 * SIZE; token++) {
            const segment = (i: number, length: number) => ({ address: guest(local + i * 64), length });
            expect(driver.add([segment(0, 10)], [segment(1, 20), segment(2, 30)], token)).to.equal(true);
            const element = device.pop();
            expect(element?.out).to.deep.equal([{ address: local, length: 10 }]);
            expect(element?.in).to.deep.equal([
              { address: local + 64, length: 20 },
              { address: local + 128, length: 30 },
            ]);
            device.push({ id: element?.id as number }, 25);
            expect(driver.getBuf()).to.deep.equal({ token, length: 25 });
          }
          expect(driver.stats().indirect, 'buffers that went through a table').to.equal(3 * SIZE);
          expect(driver.tableBytes).to.equal(0);
        });
  });
});
