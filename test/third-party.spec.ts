// What is bundled into the package brings its licence along.

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

for (const folder of ['dist', 'dist/cli'])
  describe(`${folder}/THIRD-PARTY.txt`, () => {
    const path = fileURLToPath(new URL(`../${folder}/`, import.meta.url));

    it('has a licence for every package that a source map names, and for no other', () => {
      const bundled = new Set<string>();
      for (const file of readdirSync(path).filter((name) => name.endsWith('.js.map')))
        for (const source of JSON.parse(readFileSync(path + file, 'utf8')).sources)
          for (const [, name] of source.matchAll(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//g))
            bundled.add(name);
      expect(bundled).to.include('@assemblyscript/loader');

      const [, ...entries] = readFileSync(`${path}THIRD-PARTY.txt`, 'utf8').split(
        /\n-{72}\n\n|packages\.\n\n/,
      );
      const named = entries.map((entry) => /^(\S+) \S+ \(\S+\)\n/.exec(entry)?.[1]);
      expect([...new Set(named)].sort()).to.deep.equal([...bundled].sort());
      // The least that a licence says.
      for (const entry of entries) expect(entry).to.match(/as is/i).and.to.have.length.above(500);
    });
  });
