import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { chapters } from './conformance/chapters.js';
import { collect, collectFrom, count, openStatements, render, scan } from './conformance/ledger.js';
import type { Chapter } from './conformance/statement.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

describe('conformance ledger', () => {
  it('knows every tag, and every statement once', () => {
    expect(collectFrom(ROOT).problems).to.deep.equal([]);
  });

  it('has a test or a reason for every statement', () => {
    expect(openStatements(collectFrom(ROOT))).to.deep.equal([]);
  });

  it('is what docs/conformance.md says', () => {
    const page = `${ROOT}docs/conformance.md`;
    const written = existsSync(page) ? readFileSync(page, 'utf8') : '';
    if (written !== render(collectFrom(ROOT))) {
      expect.fail('docs/conformance.md is stale: run npm run conformance');
    }
  });

  it('has the sections in the order of the specification', () => {
    for (const { sections } of chapters) {
      const keys = sections.map(({ number }) =>
        number
          .split('.')
          .map((part) => part.padStart(3, '0'))
          .join('.'),
      );
      expect(keys).to.deep.equal([...keys].sort());
      expect(new Set(keys).size).to.equal(keys.length);
    }
  });

  describe('scanner', () => {
    // Tags are put together here, so that this file is not scanned for them.
    const tag = (id: string) => `[${id}]`;
    const ONE = tag('toy-driver-one');
    const TWO = tag('toy-device-two');

    it('finds tags in titles of tests, however the title is written', () => {
      const source = [
        `it('first ${ONE}', () => {});`,
        `it("second ${ONE} and more ${TWO}", async function () {});`,
        `it(\`third \${x} ${TWO}\`, () => {});`,
        `it('fourth ' + y + ' ${ONE}', () => {});`,
        `for (const z of []) { describe('d', () => { it.only('fifth ${ONE}', () => {}); }); }`,
        `specify('sixth ${TWO}', (done) => done());`,
        `it('no tag', () => {});`,
        `it('[wasm] and [x-y] are no tags', () => {});`,
        `// it('${ONE} in a comment', () => {});`,
        `const text = "it('${ONE} in a string', () => {})";`,
      ].join('\n');
      const { found, problems } = scan('toy.spec.ts', source);
      expect(problems).to.deep.equal([]);
      expect(found.map(({ title, tags }) => `${title}: ${tags}`)).to.deep.equal([
        'first: toy-driver-one',
        'second and more: toy-driver-one,toy-device-two',
        'third …: toy-device-two',
        'fourth …: toy-driver-one',
        'fifth: toy-driver-one',
        'sixth: toy-device-two',
      ]);
    });

    it('complains of tags where no test runs', () => {
      for (const [source, callee] of [
        [`describe('x ${ONE}', () => {});`, 'describe'],
        [`it.skip('x ${ONE}', () => {});`, 'it.skip'],
        [`xit('x ${ONE}', () => {});`, 'xit'],
        [`it('x ${ONE}');`, 'it'],
      ]) {
        const { found, problems } = scan('toy.spec.ts', source);
        expect(found, source).to.deep.equal([]);
        expect(problems, source).to.have.lengthOf(1);
        expect(problems[0]).to.include(`toy.spec.ts: ${callee} `).and.to.include('runs no test');
      }
    });

    const toy: Chapter = {
      title: 'Toy',
      sections: [
        {
          number: '1.1',
          title: 'First | half',
          statements: [
            { id: 'toy-driver-one', binds: 'driver', level: 'MUST', text: 'One.' },
            { id: 'toy-device-two', binds: 'device', level: 'SHOULD NOT', text: 'Two.' },
            {
              id: 'toy-device-three',
              binds: 'device',
              level: 'MUST',
              text: 'Three.',
              notApplicable: 'Because.',
            },
          ],
        },
      ],
    };
    const sources = (...lines: string[]) => new Map([['test/toy.spec.ts', lines.join('\n')]]);

    it('counts what is shown, not applicable and open', () => {
      const ledger = collect(sources(`it('shows it ${ONE}', () => {});`), [toy]);
      expect(ledger.problems).to.deep.equal([]);
      expect(count(ledger)).to.deep.equal({ statements: 3, shown: 1, 'not applicable': 1, open: 1 });
      expect(openStatements(ledger)).to.deep.equal(['toy-device-two']);
      const page = render(ledger);
      expect(page).to.include('| Toy | 3 | 1 | 1 | 1 |');
      expect(page).to.include('### 1.1 First | half');
      expect(page).to.include(
        '| `toy-driver-one` | driver | MUST | One. | shows it ([toy.spec.ts](../test/toy.spec.ts)) |',
      );
      expect(page).to.include('| `toy-device-two` | device | SHOULD NOT | Two. | **Open** |');
      expect(page).to.include('| Not applicable. Because. |');
    });

    it('refuses tags that it does not know, and tests of what is not applicable', () => {
      const unknown = collect(sources(`it('x ${tag('toy-driver-none')}', () => {});`), [toy]);
      expect(unknown.problems).to.have.lengthOf(1);
      expect(unknown.problems[0]).to.include('unknown tag [toy-driver-none]');
      const excused = collect(sources(`it('x ${tag('toy-device-three')}', () => {});`), [toy]);
      expect(excused.problems[0]).to.include('listed as not applicable');
      expect(count(excused).shown).to.equal(0);
    });

    it('refuses ids that are used twice, are no tags or name the wrong side', () => {
      const [section] = toy.sections;
      const withId = (id: string): Chapter => ({
        title: 'Bad',
        sections: [{ ...section, statements: [{ ...section.statements[0], id }] }],
      });
      expect(collect(new Map(), [toy, toy]).problems).to.have.lengthOf(3);
      expect(collect(new Map(), [withId('toy')]).problems[0]).to.include('is not a tag');
      expect(collect(new Map(), [withId('toy-device-one')]).problems[0]).to.include('binds the driver');
    });
  });
});
