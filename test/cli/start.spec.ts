import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { inFolder, vring } from './run.js';

describe('vring start', () => {
  it('says what it does, replays the captures on both engines, and writes JSON', async function () {
    this.timeout(300_000);
    await inFolder(async (folder) => {
      const json = join(folder, 'start.json');
      const { code, out, err } = await vring('start', '--rounds', '3', '--json', json);
      expect(err).to.equal('');
      expect(code).to.equal(0);
      expect(out.split('\n')[0]).to.match(
        /^Replaying 3,425 captured frames .* split and packed .* every byte is compared\.$/,
      );
      expect(out.match(/mismatches +0 +0\n/g)).to.have.length(2);
      expect(out.match(/Wasm : TypeScript, \w+ ring ×\d+\.\d\d /g)).to.have.length(2);
      const { suite, results } = JSON.parse(await readFile(json, 'utf8'));
      expect(suite).to.equal('replay');
      for (const engine of ['wasm', 'typescript'])
        for (const ring of ['split', 'packed']) {
          const found = (name: string) =>
            results.find(
              (result: { name: string; engine: string; ring: string }) =>
                result.name === name && result.engine === engine && result.ring === ring,
            );
          expect(found('mismatches').median).to.equal(0);
          expect(found('packets').median).to.be.at.least(3425 * 3);
        }
    });
  });
});
