// When does a buffer of four segments go through an indirect table? Each policy on a ring of 64 descriptors, with
// bursts that need twice as many: node examples/tables.mjs

import { Feature, loadEngine } from 'vring';

const FEATURES = [Feature.VERSION_1, Feature.EVENT_IDX, Feature.INDIRECT_DESC];
const SIZE = 64;
const BUFFERS = 32;
const SEGMENTS = 4;

const engine = await loadEngine();
const page = engine.alloc(4096);

for (const indirect of [
  { policy: 'never' },
  { policy: 'always', tables: { strategy: 'list', descriptors: 4 } },
  { policy: 'static', threshold: 16 },
  { policy: 'adaptive' },
  { policy: 'adaptive-hysteresis' },
]) {
  const driver = engine.driverQueue({ ring: 'split', size: SIZE, features: FEATURES, indirect });
  const device = engine.deviceQueue({ ring: 'split', size: SIZE, features: FEATURES, areas: driver.areas });
  const burst = driver.createBurst(BUFFERS, BUFFERS * SEGMENTS);
  let added = 0;
  for (let round = 0; round < 100; round++) {
    for (let token = 0; token < BUFFERS; token++) {
      for (let segment = 0; segment < SEGMENTS; segment++) burst.out(page, 64);
      burst.end(token);
    }
    added += driver.addBurst(burst);
    burst.clear();
    for (let element = device.pop(); element; element = device.pop()) device.push(element, 0);
    while (driver.getBuf());
  }
  const { indirect: tabled, threshold } = driver.stats();
  console.log(
    indirect.policy.padEnd(20),
    `${String(Math.round(added / 100)).padStart(3)} of ${BUFFERS} buffers fit at once,`,
    `${String(Math.round((100 * tabled) / added)).padStart(3)} % through tables,`,
    `threshold ${threshold.value}`,
  );
  driver.release();
  device.release();
}
