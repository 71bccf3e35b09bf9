import { render } from 'preact';
import { App } from './app';
import './style/base.css';
import './style/page.css';
import './style/create.css';
import './style/results.css';
import './style/small.css';

const page = document.getElementById('page');
if (page) render(<App />, page);
