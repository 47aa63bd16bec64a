// Time models of the npm package nsfwjs in TensorFlow.js: node tfjs_models.mjs FOLDER.
// FOLDER is the unpacked package. Writes each model to FOLDER/<name> in
// TensorFlow.js' format, next to its answer, and prints {"name": ..., "size": ..., "ms": ...}.
import { createRequire } from 'node:module';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const require = createRequire(import.meta.url);
const folder = path.resolve(process.argv[2]);
const print = (value) => process.stdout.write(JSON.stringify(value) + '\n');
console.log = console.info = console.warn = console.error;  // keep the output of libraries out of the answers
const tf = require('@tensorflow/tfjs');
const wasm = require('@tensorflow/tfjs-backend-wasm');
wasm.setWasmPaths(path.dirname(require.resolve('@tensorflow/tfjs-backend-wasm/package.json')) + '/dist/');
tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
if (!await tf.setBackend('wasm')) throw new Error('TensorFlow.js does not open its backend wasm');

const SIZES = { mobilenet_v2: 224, mobilenet_v2_mid: 224, inception_v3: 299 };
const CALLS = 12;

for (const [name, size] of Object.entries(SIZES)) {
  const from = path.join(folder, 'dist/models', name), to = path.join(folder, name);
  mkdirSync(to, { recursive: true });
  const json = require(path.join(from, 'model.min.js'));
  writeFileSync(path.join(to, 'model.json'), JSON.stringify(json));
  const parts = [], weightSpecs = [];
  for (const group of json.weightsManifest) {
    weightSpecs.push(...group.weights);
    for (const file of group.paths) {
      const part = Buffer.from(require(path.join(from, `${file}.min.js`)), 'base64');
      writeFileSync(path.join(to, file), part);
      parts.push(part);
    }
  }
  const bytes = Buffer.concat(parts);
  const weightData = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  const io = tf.io.fromMemory({ ...json, weightSpecs, weightData });
  const load = json.format === 'graph-model' ? tf.loadGraphModel : tf.loadLayersModel;
  const model = await load(io);
  const x = tf.tensor(Float32Array.from({ length: size * size * 3 }, (_, i) => i * 7919 % 1000 / 1000), [1, size, size, 3]);
  let ms = Infinity, answer;
  for (let i = 0; i < CALLS; i++) {
    const start = performance.now();
    const y = tf.tidy(() => { const made = model.predict(x); return Array.isArray(made) ? made[0] : made; });
    answer = await y.data();
    ms = Math.min(ms, performance.now() - start);
    y.dispose();
  }
  writeFileSync(path.join(to, 'answer.json'), JSON.stringify([...answer]));
  print({ name, size, ms });
}
