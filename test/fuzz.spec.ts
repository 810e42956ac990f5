import { expect } from 'chai';
import { campaign } from './fuzz/campaign.js';

// A short run for every day; `npm run fuzz` is the long one. SEED=… tries another one.
const seed = Number(process.env.SEED ?? 1);
const scenarios = 250;

describe('both engines, fuzzed', () => {
  it(`no finding in ${scenarios} scenarios`, async function () {
    // Above what the watchdog of the campaign waits for.
    this.timeout(300_000);
    const found: string[] = [];
    const { operations } = await campaign({
      seed,
      jobs: 1,
      scenarios,
      onFinding: ({ rule, during, message }, path) =>
        found.push(`${rule} in ${during}: ${message} (${path})`),
    });
    expect(found, `seed ${seed}; see more with: npm run fuzz -- --replay FILE`).to.deep.equal([]);
    expect(operations).to.be.above(scenarios);
  });
});
