// The licences of bundled packages ask to go with every copy: THIRD-PARTY.txt beside each bundle.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Packages that are published without their licence, and one of the same repository that has it. */
const SIBLINGS = { '@assemblyscript/loader': 'assemblyscript' };

/** Writes the licences of all packages that went into `output` of rolldown to a file in `outdir`. */
export async function writeThirdParty(output, outdir) {
  const packages = new Set();
  for (const id of output.flatMap(({ moduleIds = [] }) => moduleIds)) {
    const folder = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(
      relative(root, id).replaceAll('\\', '/'),
    );
    if (folder) packages.add(folder[0]);
  }
  const texts = await Promise.all([...packages].sort().map(entry));
  await writeFile(
    join(outdir, 'THIRD-PARTY.txt'),
    `The files in this folder contain parts of the following packages.\n\n${texts.join(`\n\n${'-'.repeat(72)}\n\n`)}\n`,
  );
}

async function entry(folder) {
  const { name, version, license } = JSON.parse(await readFile(join(root, folder, 'package.json'), 'utf8'));
  const sibling = SIBLINGS[name];
  const texts = (await legal(folder)) ?? (sibling && (await legal(`node_modules/${sibling}`)));
  if (!texts) throw new Error(`${name} is bundled, and comes without a licence: add where it is to SIBLINGS`);
  return [`${name} ${version} (${license})`, ...texts].join('\n\n');
}

/** Licence and notice of a package; undefined without a licence. */
async function legal(folder) {
  const files = await readdir(join(root, folder));
  const find = (name) => files.find((file) => name.test(file));
  const licence = find(/^licen[cs]e/i);
  if (licence === undefined) return undefined;
  const notice = find(/^notice/i);
  return Promise.all(
    [licence, ...(notice ? [notice] : [])].map(async (file) =>
      (await readFile(join(root, folder, file), 'utf8')).trim(),
    ),
  );
}
